#include "fill_jobs/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

/// The file that argv[0] means.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (::access(name.c_str(), X_OK) == 0) return name;
    throw FileError(ExitCode::missing_input, name, system_text("cannot run", errno));
  }
  const char* variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find(':', start), path.size());
    const std::string candidate = path.substr(start, end - start) + "/" + name;
    if (candidate.front() == '/' && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    start = end + 1;
  }
  throw FileError(ExitCode::missing_input, name, "no such program in PATH");
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

/// The child, between fork and exec: async-signal-safe calls only. Failures end it with errno written to `complaint`.
[[noreturn]] void become(const char* file, char* const* argv, char* const* environment, const char* directory,
                         rlim_t memory, pid_t parent, int complaint) {
  const auto fail = [complaint] {
    const int error = errno;
    (void)!::write(complaint, &error, sizeof error);
    ::_exit(127);
  };
  ::setpgid(0, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail();
  if (::getppid() != parent) ::_exit(127);  // died before it could be said that this dies with it
  const rlimit none{0, 0}, address_space{memory, memory};
  if (::setrlimit(RLIMIT_CORE, &none) != 0) fail();
  if (memory != RLIM_INFINITY && ::setrlimit(RLIMIT_AS, &address_space) != 0) fail();
  if (::chdir(directory) != 0) fail();
  const int empty = ::open("/dev/null", O_RDONLY);
  if (empty < 0 || ::dup2(empty, 0) < 0) fail();
  // Everything behind stderr closes at exec, whoever forgot to ask for that; `complaint` too.
  if (::syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */) != 0)
    for (int descriptor = 3; descriptor < 4096; ++descriptor) ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  sigset_t all;
  sigemptyset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  for (const int number : {SIGCHLD, SIGPIPE, SIGTERM, SIGINT, SIGHUP}) ::signal(number, SIG_DFL);
  ::kill(::getpid(), SIGSTOP);
  ::execve(file, argv, environment);
  constexpr std::string_view kText = "pipefill: this file cannot be executed\n";
  (void)!::write(2, kText.data(), kText.size());
  ::_exit(126);
}

}  // namespace

std::vector<std::string> fixed_environment() {
  std::vector<std::string> kept;
  for (const char* name : {"PATH", "HOME", "USER", "LANG", "TMPDIR", "LD_LIBRARY_PATH", kWorkerMark})
    if (const char* value = std::getenv(name)) kept.push_back(fmt::format("{}={}", name, value));
  return kept;
}

int start_program(const ProgramStart& start) {
  const std::string file = find_program(start.argv.front());
  std::vector<std::string> argv = start.argv, environment = fixed_environment();
  environment.insert(environment.end(), start.environment.begin(), start.environment.end());
  const std::vector<char*> arguments = pointers(argv), variables = pointers(environment);
  const rlim_t memory = start.memory.count > 0 ? static_cast<rlim_t>(start.memory.count) : RLIM_INFINITY;
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw FileError(ExitCode::input_output, file, system_text("cannot start", errno));
  FileDescriptor listen(pipe[0]), complain(pipe[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw FileError(ExitCode::input_output, file, system_text("cannot start", errno));
  if (child == 0)
    become(file.c_str(), arguments.data(), variables.data(), start.directory.c_str(), memory, parent, pipe[1]);
  ::setpgid(child, child);  // both sides: whoever comes first
  int status = 0;
  if (::waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status)) return child;
  int error = 0;
  if (::read(listen.get(), &error, sizeof error) != sizeof error) error = ECHILD;
  throw FileError(ExitCode::input_output, file, system_text("cannot start", error));
}

}  // namespace pipefill
