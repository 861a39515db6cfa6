#include "worker/planner.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "worker/job_directory.hpp"
#include "worker/job_run.hpp"

extern char** environ;

namespace pipefill {
namespace {

/// What the process said on stderr, at most 4 KiB, until it closes it or the time is over.
std::string read_until_closed(int pipe, Nanoseconds until) {
  std::string text;
  std::array<char, 1024> part{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - now()).count();
    pollfd polled{pipe, POLLIN, 0};
    if (left <= 0 || ::poll(&polled, 1, static_cast<int>(left)) == 0) return text;
    const ssize_t got = ::read(pipe, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    if (text.size() < 4096) text.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

void plan_job(const std::string& directory, FindKind find_kind) { JobRun::plan(directory, find_kind); }

void join_job(const std::string& directory, FindKind find_kind) { JobRun::merge(directory, find_kind); }

std::string run_on_job(const std::vector<std::string>& command, const std::string& directory, const std::string& doing,
                       Nanoseconds timeout) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_text("cannot make a pipe", errno);
  const FileDescriptor in(ends[0]);
  FileDescriptor out(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.get(), 2);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(const_cast<char*>(directory.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, command.front().c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  out = FileDescriptor();
  if (error != 0) return system_text(fmt::format("cannot start {}", doing), error);
  const Nanoseconds until = now() + timeout;
  std::string said = read_until_closed(in.get(), until);
  const bool late = now() >= until;
  if (late) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (late) return fmt::format("its kind did not end {} within {} s", doing, timeout.count() / 1'000'000'000);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  while (said.ends_with('\n')) said.pop_back();
  if (WIFSIGNALED(status))
    return fmt::format("its kind crashed while {} (signal {}) {}", doing, WTERMSIG(status), said);
  return said.empty() ? fmt::format("{} ended with exit code {}", doing, WEXITSTATUS(status)) : said;
}

void fail_job(const std::string& directory, const std::string& reason) {
  const JobDirectory job = JobDirectory::open(directory);
  JobState state = job.read_state();
  state.status = JobStatus::failed;
  state.message = reason;
  job.write_state(state);
}

}  // namespace pipefill
