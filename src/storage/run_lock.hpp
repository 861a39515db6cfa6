// A run directory has one user at a time. The lock is flock(2) on RUN/run.lock, which the kernel drops when the process
// ends however it ends; the text in it (host, process, its start time) names the holder to whoever is refused, and
// decides where the file system has no locks (ENOLCK, ENOSYS, EOPNOTSUPP: NFS and Lustre as some mount them).
#pragma once

#include <sys/file.h>

#include <string>

#include "storage/atomic_file.hpp"

namespace pipefill {

class RunLock {
 public:
  /// flock(2), or what a test puts in its place: 0, or -1 and errno.
  using LockCall = int (*)(int descriptor, int operation);
  /// Takes the lock or throws FileError 73: in use, and by whom (74 where locking fails otherwise). One rank takes it
  /// for the whole run.
  static RunLock take(const std::string& directory, LockCall lock = ::flock);
  RunLock(RunLock&&) noexcept = default;
  RunLock& operator=(RunLock&&) = delete;
  /// Empties the file, then releases.
  ~RunLock();
  /// Who held it and ended without releasing it ("process 123 on host a"); empty: nobody. For the log.
  const std::string& stale_holder() const { return stale_holder_; }
  /// Why only the text protects the directory, which two starts in the same moment can get past; empty: the kernel
  /// does.
  const std::string& weakness() const { return weakness_; }

 private:
  RunLock(FileDescriptor file, std::string stale_holder, std::string weakness);
  FileDescriptor file_;
  std::string stale_holder_, weakness_;
};

}  // namespace pipefill
