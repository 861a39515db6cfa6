// The lock on a run directory; see run_lock.hpp.
#include "storage/run_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/host.hpp"

namespace pipefill {
namespace {

struct Holder {
  std::string host;
  long pid = 0;
  std::string started;  ///< clock ticks since boot, field 22 of /proc/PID/stat; with the pid it names a process
};

/// Empty when there is no such process.
std::string start_time_of(long pid) {
  std::istringstream fields(process_stat(pid));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

Holder read_holder(int descriptor) {
  std::array<char, 512> text{};
  Holder holder;
  if (::pread(descriptor, text.data(), text.size() - 1, 0) > 0) {
    std::istringstream(text.data()) >> holder.host >> holder.pid >> holder.started;
  }
  return holder;
}

std::string describe(const Holder& holder) { return fmt::format("process {} on host {}", holder.pid, holder.host); }

[[noreturn]] void refuse(const std::string& path, const Holder& holder, const char* advice) {
  throw FileError(ExitCode::cannot_create, path,
                  fmt::format("the run directory is in use by {}: two runs would destroy each other's files. {}",
                              holder.pid ? describe(holder) : "another process", advice));
}

}  // namespace

RunLock::RunLock(FileDescriptor file, std::string stale_holder, std::string weakness)
    : file_(std::move(file)), stale_holder_(std::move(stale_holder)), weakness_(std::move(weakness)) {}

RunLock::~RunLock() {
  if (file_.get() >= 0 && ::ftruncate(file_.get(), 0) != 0) return;  // a stale text is recognised as such
}

RunLock RunLock::take(const std::string& directory, LockCall lock) {
  constexpr const char* kWait = "Wait for it, stop it with `pipefill halt`, or choose another run.directory";
  constexpr const char* kDelete = "If that run is gone, delete this file; its host cannot be asked from here";
  const std::string path = directory + "/run.lock";
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (file.get() < 0) throw FileError(ExitCode::cannot_create, path, system_text("cannot open", errno));
  int error = 0;
  do error = lock(file.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  while (error == EINTR);
  const bool locked = error == 0;
  const bool no_locks = error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP;
  if (!locked && !no_locks && error != EWOULDBLOCK)
    throw FileError(ExitCode::input_output, path, system_text("cannot lock", error));
  const Holder holder = read_holder(file.get());
  if (error == EWOULDBLOCK) refuse(path, holder, kWait);
  const bool here = holder.host == host_name();
  // Without locks the text decides: on this host the process can be looked up, elsewhere it must be believed.
  if (!locked && holder.pid != 0 && !here) refuse(path, holder, kDelete);
  if (!locked && here && !holder.started.empty() && start_time_of(holder.pid) == holder.started) {
    refuse(path, holder, kWait);
  }
  const std::string mine = fmt::format("{} {} {}\n", host_name(), ::getpid(), start_time_of(::getpid()));
  if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), mine.data(), mine.size(), 0) < 0) {
    throw FileError(ExitCode::cannot_create, path, system_text("cannot write", errno));
  }
  // Without locks another start may have written its name in the same moment: the last one stays.
  if (const Holder now = read_holder(file.get()); !locked && (now.pid != ::getpid() || now.host != host_name()))
    refuse(path, now, kWait);
  return RunLock(std::move(file), holder.pid ? describe(holder) : "",
                 locked ? "" : system_text("this file system cannot lock " + path, error));
}

}  // namespace pipefill
