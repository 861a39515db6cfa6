#include "walltime.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

/// What a pipe brings until its other end is closed; nothing when that is not before `end`.
std::optional<std::string> read_until(int descriptor, Nanoseconds end) {
  std::string text;
  std::array<char, 256> block{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - now()).count();
    pollfd polled{descriptor, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&polled, 1, static_cast<int>(left)) : 0;
    if (ready == 0) return std::nullopt;
    const ssize_t got = ready > 0 ? ::read(descriptor, block.data(), block.size()) : -1;
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(got));
  }
}

/// Starts `words` with stdout in a pipe and stderr nowhere; -1 when that cannot be done.
pid_t start(const std::vector<std::string>& words, FileDescriptor& output) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
  output = FileDescriptor(ends[0]);
  const FileDescriptor input(ends[1]);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? child : -1;
}

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& words, Nanoseconds patience) {
  FileDescriptor output;
  const pid_t child = start(words, output);
  if (child < 0) return "";
  std::optional<std::string> text = read_until(output.get(), now() + patience);
  // A child that has closed its output ends by itself; one that a disk keeps from dying is left to init.
  if (!text) ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, text ? 0 : WNOHANG) < 0 && errno == EINTR) {
  }
  while (text && !text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  return text;
}

Nanoseconds parse_slurm_time(const std::string& text) {
  const std::size_t dash = text.find('-');
  const std::string clock = dash == std::string::npos ? text : text.substr(dash + 1);
  const auto time = parse_duration(clock);
  if (!time) return Nanoseconds{0};
  const std::int64_t days = dash == std::string::npos ? 0 : std::strtoll(text.c_str(), nullptr, 10);
  return *time + std::chrono::hours(24 * days);
}

Nanoseconds parse_max_time(const std::string& text) {
  constexpr Nanoseconds kPatience = std::chrono::seconds(15);
  if (text == "auto") {
    const char* job = std::getenv("SLURM_JOB_ID");
    if (job == nullptr || std::string(job).find_first_not_of("0123456789") != std::string::npos) return Nanoseconds{0};
    const auto answer = output_of({"squeue", "-h", "-j", job, "-o", "%L"}, kPatience);
    if (!answer)
      std::fprintf(stderr, "pipefill: warning: squeue did not answer within %s, so --max-time auto sets no limit\n",
                   format_duration(kPatience).c_str());
    return parse_slurm_time(answer.value_or(""));
  }
  const auto time = parse_duration(text);
  if (!time || time->count() <= 0)
    throw UsageError(fmt::format("--max-time {}: expected auto or a time such as 3:50:00, 90min or 30s", text));
  return *time;
}

}  // namespace pipefill
