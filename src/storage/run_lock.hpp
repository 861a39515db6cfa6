// A run directory has one user at a time. The lock is flock(2) on RUN/run.lock, which the kernel drops when the process
// ends however it ends; the text in it (host, process, its start time) names the holder to whoever is refused, and
// decides where the file system has no locks.
#pragma once

#include <string>

#include "storage/atomic_file.hpp"

namespace pipefill {

class RunLock {
 public:
  /// Takes the lock or throws FileError 73: in use, and by whom. One rank takes it for the whole run.
  static RunLock take(const std::string& directory);
  RunLock(RunLock&&) noexcept = default;
  RunLock& operator=(RunLock&&) = delete;
  /// Empties the file, then releases.
  ~RunLock();
  /// Who held it and ended without releasing it ("process 123 on host a"); empty: nobody. For the log.
  const std::string& stale_holder() const { return stale_holder_; }

 private:
  RunLock(FileDescriptor file, std::string stale_holder);
  FileDescriptor file_;
  std::string stale_holder_;
};

}  // namespace pipefill
