#include "worker/worker_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.hpp"
#include "fill_jobs/program.hpp"
#include "worker/job_group.hpp"

namespace pipefill {
namespace {

constexpr int kFirstOther = 5;

void check_spawn(int error, const char* what) {
  if (error != 0) throw FileError(ExitCode::input_output, "fill worker", system_text(what, error));
}

struct SpawnFiles {
  posix_spawn_file_actions_t actions;
  SpawnFiles() { check_spawn(::posix_spawn_file_actions_init(&actions), "cannot prepare to spawn"); }
  ~SpawnFiles() { ::posix_spawn_file_actions_destroy(&actions); }
};
struct SpawnAttributes {
  posix_spawnattr_t attributes;
  SpawnAttributes() { check_spawn(::posix_spawnattr_init(&attributes), "cannot prepare to spawn"); }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes); }
};

}  // namespace

WorkerProcess WorkerProcess::spawn(const std::string& program, const std::vector<std::string>& arguments,
                                   WorkerMemory memory, int threads, WorkerPriority priority) {
  std::vector<std::string> argv = arguments, environment = fixed_environment();
  const std::int64_t bell = memory.doorbell.descriptor >= 0 ? memory.doorbell.offset : -1;
  for (const std::int64_t number :
       {std::int64_t{kChannelNumber}, std::int64_t{::getpid()}, std::int64_t{threads}, bell})
    argv.push_back(fmt::format("{}", number));
  static std::atomic<int> count{0};  // several ranks may live in one process
  const std::string mark = fmt::format("{}={}.{}", kWorkerMark, ::getpid(), ++count);
  std::erase_if(environment, [](const std::string& variable) { return variable.starts_with(kWorkerMark); });
  environment.push_back(mark);
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
    environment.push_back(fmt::format("{}={}", name, threads));
  std::vector<char*> arguments_at, environment_at;
  for (std::string& text : argv) arguments_at.push_back(text.data());
  for (std::string& text : environment) environment_at.push_back(text.data());
  arguments_at.push_back(nullptr);
  environment_at.push_back(nullptr);

  SpawnFiles files;
  check_spawn(::posix_spawn_file_actions_addopen(&files.actions, 0, "/dev/null", O_RDONLY, 0), "cannot prepare files");
  // Out of the way of each other first: one may have the other's number.
  const FileDescriptor channel(::fcntl(memory.channel, F_DUPFD_CLOEXEC, kFirstOther));
  const FileDescriptor doorbell(bell < 0 ? -1 : ::fcntl(memory.doorbell.descriptor, F_DUPFD_CLOEXEC, kFirstOther));
  check_spawn(::posix_spawn_file_actions_adddup2(&files.actions, channel.get(), kChannelNumber),
              "cannot prepare files");
  if (bell >= 0)
    check_spawn(::posix_spawn_file_actions_adddup2(&files.actions, doorbell.get(), kDoorbellNumber),
                "cannot prepare files");
  check_spawn(::posix_spawn_file_actions_addclosefrom_np(&files.actions, bell < 0 ? kDoorbellNumber : kFirstOther),
              "cannot prepare files");
  SpawnAttributes spawn;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  check_spawn(::posix_spawnattr_setflags(&spawn.attributes,
                                         POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF),
              "cannot prepare to spawn");
  check_spawn(::posix_spawnattr_setpgroup(&spawn.attributes, 0), "cannot prepare to spawn");
  check_spawn(::posix_spawnattr_setsigmask(&spawn.attributes, &none), "cannot prepare to spawn");
  check_spawn(::posix_spawnattr_setsigdefault(&spawn.attributes, &all), "cannot prepare to spawn");
  pid_t pid = 0;
  check_spawn(::posix_spawn(&pid, program.c_str(), &files.actions, &spawn.attributes, arguments_at.data(),
                            environment_at.data()),
              "cannot start");
  // Not by a spawn attribute: the caller waits for the exec, and on a busy core an idle child may take seconds to it.
  const sched_param none_given{};
  if (priority == WorkerPriority::idle) ::sched_setscheduler(pid, SCHED_IDLE, &none_given);
  ProcessFacts facts;
  read_process(pid, facts);
  return {{pid, facts.name.started}, FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))), mark};
}

const std::vector<ProcessFacts>& WorkerProcess::look_at_children() {
  std::vector<ProcessFacts> seen = descendants(pid());
  if (!seen.empty() || children_.empty()) {
    children_ = std::move(seen);
  } else {
    // None below it: they ended, or it did, and those that live on belong to somebody else now.
    std::erase_if(children_, [](ProcessFacts& child) {
      ProcessFacts now;
      return !read_process(child.name.pid, now) || now.name != child.name || now.state == 'Z';
    });
  }
  return children_;
}

void WorkerProcess::kill_all() {
  ::kill(-pid(), SIGKILL);
  ::kill(pid(), SIGKILL);  // in case it left its group
  for (const ProcessFacts& child : children_) signal_process(child.name, SIGKILL);
}

void WorkerProcess::kill_orphans() const {
  for (int pass = 0; pass < 200; ++pass) {
    bool left = false;
    for (const ProcessFacts& process : descendants(::getpid())) {
      std::ifstream file(fmt::format("/proc/{}/environ", process.name.pid), std::ios::binary);
      const std::string environment{std::istreambuf_iterator<char>(file), {}};
      if (environment.find(mark_ + '\0') == std::string::npos) continue;  // a zombie's is empty
      left = true;
      ::kill(process.name.pid, SIGKILL);
      if (process.parent == ::getpid()) ::waitpid(process.name.pid, nullptr, 0);
    }
    if (!left) return;
    ::poll(nullptr, 0, 1);
  }
}

std::string WorkerProcess::reap() {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid()), &info, WEXITED) != 0 && errno == EINTR) {
  }
  kill_orphans();
  const bool out_of_memory = JobGroup::killed_for_memory(pid()) > 0;
  JobGroup::remove_of(pid());
  if (out_of_memory) return "was killed by the kernel: limits.memory, its cgroup had none left";
  if (info.si_code == CLD_EXITED) return fmt::format("ended with exit code {}", info.si_status);
  return fmt::format("was killed by signal {} ({})", info.si_status, ::strsignal(info.si_status));
}

}  // namespace pipefill
