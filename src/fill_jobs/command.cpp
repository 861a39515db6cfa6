#include "fill_jobs/command.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "fill_jobs/process_tree.hpp"
#include "fill_jobs/program.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

class CommandJob {
 public:
  explicit CommandJob(const pipefill_fill_setup& setup);
  ~CommandJob() { end_all(); }
  CommandJob(const CommandJob&) = delete;
  CommandJob& operator=(const CommandJob&) = delete;

  /// Until the program ends or the bubble does.
  int32_t run(const pipefill_fill_grant& grant, pipefill_fill_error* error);
  int group() const { return group_.load(std::memory_order_acquire); }

 private:
  void signal_all(int signal) const;
  int32_t ended(int status, pipefill_fill_error* error);
  /// Kills whatever is left of it, also what left its group.
  void end_all();

  ProgramStart start_;
  std::atomic<int> group_{0};  ///< read by the worker's watching thread
  FileDescriptor process_;
};

int32_t fail(pipefill_fill_error* error, int32_t result, const std::string& text) {
  const std::size_t length = std::min(text.size(), sizeof error->text - 1);
  std::memcpy(error->text, text.data(), length);
  error->text[length] = '\0';
  return result;
}

/// Turns what is thrown into a result of the ABI.
template <class Body>
int32_t guarded(pipefill_fill_error* error, Body body) {
  try {
    return body();
  } catch (const Error& e) {
    const bool trouble = e.code() == ExitCode::input_output || e.code() == ExitCode::cannot_create;
    return fail(error, trouble ? PIPEFILL_FILL_FAILED : PIPEFILL_FILL_INVALID, e.what());
  } catch (const std::bad_alloc&) {
    return fail(error, PIPEFILL_FILL_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return fail(error, PIPEFILL_FILL_FAILED, e.what());
  }
}

CommandJob::CommandJob(const pipefill_fill_setup& setup) {
  start_.directory = setup.directory;
  start_.memory = Bytes{setup.memory_limit};
  for (std::uint64_t i = 0; i < setup.parameter_count; ++i) {
    const std::string_view name = setup.parameters[i].name;
    const std::string value = setup.parameters[i].value;
    if (name == "argv") {
      start_.argv.push_back(value);
    } else if (name == "environment") {
      const std::size_t equals = value.find('=');
      if (equals == 0 || equals == std::string::npos)
        throw DeckError(fmt::format("with.environment: expected NAME=value, got '{}'", value));
      start_.environment.push_back(value);
    } else if (name == "directory") {
      start_.directory = (std::filesystem::path(setup.base_directory) / value).string();
    } else {
      throw DeckError(fmt::format("with.{}: unknown; a command takes argv, environment and directory", name));
    }
  }
  if (start_.argv.empty() || start_.argv.front().empty())
    throw DeckError("with.argv: expected the program and its arguments as a list, such as [sleep, \"10\"]");
  if (setup.shards != 1) throw DeckError("shards: a command cannot be split; leave it at 1");
}

void CommandJob::signal_all(int signal) const {
  const int group = group_.load(std::memory_order_relaxed);
  ::kill(-group, signal);
  // Those that left the group; twice, for one that was forked while we looked.
  for (int pass = 0; pass < 2; ++pass) {
    bool escaped = false;
    for (const ProcessFacts& process : descendants(::getpid())) {
      if (process.group == group || process.state == 'Z') continue;
      ::kill(process.name.pid, signal);
      escaped = true;
    }
    if (!escaped) break;
  }
}

int32_t CommandJob::run(const pipefill_fill_grant& grant, pipefill_fill_error* error) {
  if (group() == 0) {
    const int program = start_program(start_);
    process_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, program, 0)));
    group_.store(program, std::memory_order_release);
  }
  signal_all(SIGCONT);
  constexpr int kLook = 1;  // ms between looks at the bubble's end; the rank stops the group itself, at once
  for (;;) {
    int status = 0;
    if (::waitpid(group(), &status, WNOHANG) == group()) return ended(status, error);
    if (grant.should_stop(grant.context) != 0) {
      signal_all(SIGSTOP);
      return PIPEFILL_FILL_INTERRUPTED;
    }
    pollfd end{process_.get(), POLLIN, 0};
    ::poll(&end, process_.get() >= 0 ? 1 : 0, kLook);
    // Orphans of the program have become this process's children.
    for (siginfo_t info{}; ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0; info = {}) {
      if (info.si_pid == 0 || info.si_pid == group()) break;
      ::waitpid(info.si_pid, nullptr, WNOHANG);
    }
  }
}

int32_t CommandJob::ended(int status, pipefill_fill_error* error) {
  const std::string& name = start_.argv.front();
  end_all();
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* advice = number == SIGXFSZ ? "; a file grew over limits.disk" : number == SIGXCPU ? "; limits.cpu" : "";
    return fail(error, PIPEFILL_FILL_FAILED,
                fmt::format("{} was killed by signal {} ({}){}", name, number, ::strsignal(number), advice));
  }
  const int code = WEXITSTATUS(status);
  if (code != 0) return fail(error, PIPEFILL_FILL_FAILED, fmt::format("{} ended with exit code {}", name, code));
  return PIPEFILL_FILL_OK;
}

void CommandJob::end_all() {
  if (group() == 0) return;
  ::kill(-group(), SIGKILL);
  kill_descendants(::getpid());
  group_.store(0, std::memory_order_release);
  process_ = FileDescriptor();
}

CommandJob* of(pipefill_fill_job* job) { return reinterpret_cast<CommandJob*>(job); }

constexpr pipefill_fill_kind kCommand{
    .abi = PIPEFILL_FILL_JOB_ABI,
    .struct_bytes = sizeof(pipefill_fill_kind),
    .name = "command",
    .create = [](const pipefill_fill_setup* setup, pipefill_fill_job** job,
                 pipefill_fill_error* error) noexcept -> int32_t {
      return guarded(error, [&] {
        *job = reinterpret_cast<pipefill_fill_job*>(new CommandJob(*setup));
        return PIPEFILL_FILL_OK;
      });
    },
    .configurations = [](pipefill_fill_job*, pipefill_fill_configuration* out, int32_t room, int32_t* count,
                         pipefill_fill_error*) noexcept -> int32_t {
      *count = 1;
      if (room < 1) return PIPEFILL_FILL_OK;
      *out = {.struct_bytes = sizeof *out,
              .name = "program",
              .chunks = 1,
              .state_bytes = 0,
              .memory_bytes = 0,
              .samples = 1};
      return PIPEFILL_FILL_OK;
    },
    .plan = [](pipefill_fill_job*, int32_t, int64_t, int64_t count, pipefill_fill_chunk* out,
               pipefill_fill_error*) noexcept -> int32_t {
      for (int64_t i = 0; i < count; ++i)
        out[i] = {
            .struct_bytes = sizeof *out, .cost_class = 0, .flops = 0, .bytes = 0, .memory_bytes = 0, .samples = 1};
      return PIPEFILL_FILL_OK;
    },
    .restore = [](pipefill_fill_job*, int32_t, void*, int64_t, pipefill_fill_error*) noexcept -> int32_t {
      return PIPEFILL_FILL_OK;
    },
    .run = [](pipefill_fill_job* job, int64_t, const pipefill_fill_grant* grant, pipefill_fill_error* error) noexcept
    -> int32_t { return guarded(error, [&] { return of(job)->run(*grant, error); }); },
    .save = [](pipefill_fill_job*, int64_t, pipefill_fill_error*) noexcept -> int32_t { return PIPEFILL_FILL_OK; },
    .destroy = [](pipefill_fill_job* job) noexcept { delete of(job); },
    .merge = nullptr,
};

}  // namespace

const pipefill_fill_kind* command_kind() { return &kCommand; }

int program_group(const pipefill_fill_job* job) { return reinterpret_cast<const CommandJob*>(job)->group(); }

}  // namespace pipefill
