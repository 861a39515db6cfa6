// pipefill fill ...: the queue of fill jobs of a running (or coming) main job, and a job run by itself.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text.hpp"
#include "commands.hpp"
#include "fill_alone.hpp"
#include "fill_jobs/kind.hpp"
#include "storage/atomic_file.hpp"
#include "worker/job_directory.hpp"
#include "worker/job_parts.hpp"
#include "worker/job_state.hpp"
#include "worker/queue.hpp"

namespace pipefill {
namespace {

namespace fs = std::filesystem;

std::string absolute_parent(const std::string& file) { return fs::absolute(file).parent_path().string(); }

/// A run's queue may be made before the run: its directory is made too.
FillQueue queue_of(const std::string& run) { return FillQueue(run, kind_names()); }

ExitCode submit(const std::string& run, const std::string& file) {
  const QueueEntry entry = queue_of(run).submit(read_file(file, kMaxJobFile), file, absolute_parent(file));
  fmt::print("job {} '{}' ({}) is in the queue of {}\n", entry.number, entry.name, entry.spec.kind, run);
  return ExitCode::finished;
}

/// One row of the list; a job that nobody took yet has no directory.
struct Row {
  std::string number, name, kind, owner, status, progress;
};

/// How a job stands now; of a divided one, what its parts have done together.
JobState state_of(const std::string& directory) {
  JobState state = JobDirectory::open(directory).read_state();
  if (state.shard == kDivided && state.status == JobStatus::running) {
    state.chunks = state.done = state.failures = 0;
    state.cpu_time = state.chunk_time = Nanoseconds{0};
    for (std::int64_t shard = 0; shard < state.shards; ++shard) {
      JobState part;
      try {
        part = state_of(part_directory(directory, shard));
      } catch (const FileError&) {
        return JobDirectory::open(directory).read_state();  // joined just now
      }
      state.chunks += part.chunks, state.done += part.done, state.failures += part.failures;
      state.cpu_time += part.cpu_time, state.chunk_time += part.chunk_time;
      state.threads = part.threads;
      if (state.message.empty()) state.message = part.message;
    }
    return state;
  }
  if (state.status == JobStatus::running) state.done = std::max(state.done, read_done(directory + "/state.bin"));
  return state;
}

std::vector<Row> rows_of(const std::string& run) {
  FillQueue queue = queue_of(run);
  std::vector<Row> rows;
  for (const QueueEntry& entry : queue.scan()) {
    if (fs::exists(queue.job_directory(entry) + "/state.json")) continue;
    rows.push_back({std::to_string(entry.number), entry.name, entry.spec.kind, entry.spec.owner,
                    entry.cancelled ? "cancelled" : "queued", "-"});
  }
  std::vector<std::string> directories;
  for (const auto& at : fs::directory_iterator(run + "/fill"))
    if (fs::exists(at.path() / "state.json")) directories.push_back(at.path().string());
  std::ranges::sort(directories);
  for (const std::string& directory : directories) {
    const JobState state = state_of(directory);
    rows.push_back({"-", state.name, state.kind, state.owner, std::string(status_name(state.status)),
                    state.chunks > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(state.done) /
                                                                   static_cast<double>(state.chunks))
                                     : "-"});
  }
  return rows;
}

ExitCode list(const std::string& run) {
  fmt::print("{:>6}  {:24} {:10} {:12} {:12} {}\n", "number", "name", "kind", "owner", "status", "done");
  for (const Row& row : rows_of(run))
    fmt::print("{:>6}  {:24} {:10} {:12} {:12} {}\n", row.number, row.name, row.kind,
               row.owner.empty() ? "-" : row.owner, row.status, row.progress);
  for (const RefusedEntry& refused : queue_of(run).refused())
    fmt::print("refused {}: {}\n", refused.file, refused.reason);
  return ExitCode::finished;
}

ExitCode show(const std::string& run, const std::string& job) {
  const std::string directory = run + "/fill/" + job;
  if (!fs::exists(directory + "/state.json")) {
    const QueueEntry entry = queue_of(run).find(job);
    fmt::print("job {} '{}' ({}): queued{}\n\n{}", entry.number, entry.name, entry.spec.kind,
               entry.cancelled ? ", to be cancelled" : "", entry.job_text);
    return ExitCode::finished;
  }
  const JobState state = state_of(directory);
  const std::string parts = state.shard == kDivided ? fmt::format(", in {} parts", state.shards) : "";
  fmt::print("{} ({}): {}{}\n", state.name, state.kind, status_name(state.status), parts);
  if (!state.message.empty()) fmt::print("  last failure: {} ({} so far)\n", state.message, state.failures);
  fmt::print("  configuration {}, {} threads, {} of {} chunks done\n",
             state.configuration.empty() ? "not chosen yet" : state.configuration, state.threads, state.done,
             state.chunks);
  fmt::print("  chunk time {}, processor time {}\n  files in {}\n", format_duration(state.chunk_time),
             format_duration(state.cpu_time), directory);
  return ExitCode::finished;
}

ExitCode cancel(const std::string& run, const std::string& job) {
  FillQueue queue = queue_of(run);
  const bool first = queue.cancel(queue.find(job));
  fmt::print("{} will be taken out of {}{}\n", job, run, first ? "" : " (that was asked before)");
  return ExitCode::finished;
}

}  // namespace

void add_fill_command(CLI::App& app, Command& chosen) {
  CLI::App* group = app.add_subcommand("fill", "fill jobs: submit, list, show, cancel, or run one by itself");
  group->require_subcommand(1);
  auto run = std::make_shared<std::string>();
  auto word = std::make_shared<std::string>();
  const auto add = [&](const char* name, const char* help, const char* second, const char* second_help, auto action) {
    CLI::App* command = group->add_subcommand(name, help);
    command->add_option("RUN", *run, "run directory of the main job; it need not have started yet")->required();
    if (second != nullptr) command->add_option(second, *word, second_help)->required();
    command->callback([run, word, action, &chosen] { chosen = [run, word, action] { return action(*run, *word); }; });
  };
  add("submit", "put a job into the queue of a run", "JOB.yaml", "the job file", submit);
  add("list", "all jobs of a run and how they stand", nullptr, nullptr,
      [](const std::string& directory, const std::string&) { return list(directory); });
  add("show", "one job: how it stands, and its last failure", "JOB", "its name", show);
  add("cancel", "take a job out of the queue, also while it runs", "JOB", "its name or number", cancel);

  CLI::App* alone = group->add_subcommand("run", "run one job by itself, without a main job, and say how fast it is");
  auto threads = std::make_shared<int>(1);
  alone->add_option("JOB.yaml", *word, "the job file")->required();
  alone->add_option("--directory", *run, "where fill/<job>/ goes; goes on there if it exists [runs/fill]");
  alone->add_option("--threads", *threads, "for computing, unless its state pins another number [1]")
      ->check(CLI::Range(1, 4096));
  alone->callback([run, word, threads, &chosen] {
    chosen = [run, word, threads] { return run_alone(*word, run->empty() ? "runs/fill" : *run, *threads); };
  });
}

}  // namespace pipefill
