#include "worker/worker_main.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/error.hpp"
#include "comm/doorbells.hpp"
#include "worker/channel.hpp"
#include "worker/worker_loop.hpp"
#include "worker/worker_process.hpp"

namespace pipefill {
namespace {

/// The kernel's out-of-memory killer takes this process before any other.
void die_first_without_memory() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  (void)!::write(file, "1000\n", 5);
  ::close(file);
}

/// Mapped for as long as the process lives, and not for writing: a job that goes astray must not ring.
const Doorbell* map_doorbell(FileDescriptor memory, std::int64_t offset) {
  const auto size = static_cast<std::size_t>(offset) + sizeof(Doorbell);
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED) return nullptr;
  return reinterpret_cast<const Doorbell*>(static_cast<const std::byte*>(at) + offset);
}

}  // namespace

void become_idle_class() {
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none);
  constexpr int kWhoThread = 1, kClassIdle = 3, kClassShift = 13;  // linux/ioprio.h
  ::syscall(SYS_ioprio_set, kWhoThread, 0, kClassIdle << kClassShift);
}

int worker_main(int argc, char** argv, FindKind find_kind) {
  if (argc != 6) {
    std::fprintf(stderr, "pipefill fill-worker is started by a rank of pipefill train, not by hand\n");
    return static_cast<int>(ExitCode::usage);
  }
  const int parent = std::atoi(argv[3]);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return 0;  // died before it could be said that this dies with it
  if (::sched_getscheduler(0) == SCHED_IDLE) become_idle_class();  // of input and output too
  die_first_without_memory();
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);  // what a job leaves behind stays below this process
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  try {
    FileDescriptor memory(std::atoi(argv[2]));
    ::fcntl(memory.get(), F_SETFD, FD_CLOEXEC);
    WorkerChannel channel = WorkerChannel::attach(std::move(memory));
    const std::int64_t offset = std::atoll(argv[5]);
    if (offset >= 0) channel.set_doorbell(map_doorbell(FileDescriptor(kDoorbellNumber), offset));
    WorkerLoopOptions options;
    options.threads = std::max(1, std::atoi(argv[4]));
    options.find_kind = find_kind;
    options.orphaned = [parent] { return ::getppid() != parent; };
    run_worker_loop(channel, options);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pipefill fill-worker: %s\n", e.what());
    return static_cast<int>(ExitCode::bug);
  }
}

}  // namespace pipefill
