#include "fill_alone.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "engine/signals.hpp"
#include "fill_jobs/kind.hpp"
#include "storage/atomic_file.hpp"
#include "worker/job_directory.hpp"
#include "worker/supervisor.hpp"

namespace pipefill {
namespace {

namespace fs = std::filesystem;

constexpr Nanoseconds kReportEvery = std::chrono::seconds(2);

std::string make_directory(const std::string& file, const std::string& root) {
  const std::string text = read_file(file, kMaxJobFile);
  const FillJobSpec spec = parse_fill_job(text, file, kind_names());
  const std::string path = root + "/fill/" + spec.name;
  if (fs::exists(path + "/state.json")) return path;
  JobState first;
  first.name = spec.name, first.kind = spec.kind, first.owner = spec.owner;
  first.base_directory = fs::absolute(file).parent_path().string();
  fs::create_directories(root + "/fill");
  JobDirectory::create(path, text, first);
  return path;
}

/// How far the job is, and how fast it has come along since `first` chunks were done.
void tell(const AssignedJob& job, std::int64_t first, Nanoseconds elapsed) {
  const double chunks = static_cast<double>(std::max<std::int64_t>(1, job.chunks));
  const double samples = job.samples * static_cast<double>(job.done - first) / chunks;
  fmt::print("{} of {} chunks ({:.1f} %), {:.1f} samples/s\n", job.done, job.chunks,
             100 * static_cast<double>(job.done) / chunks, samples / to_seconds(elapsed));
  std::fflush(stdout);
}

}  // namespace

ExitCode run_alone(const std::string& file, const std::string& directory, int threads) {
  const std::string path = make_directory(file, directory);
  const JobState before = JobDirectory::open(path).read_state();
  if (before.status == JobStatus::finished) {
    fmt::print("{} was finished before; its output is in {}\n", before.name, path);
    return ExitCode::finished;
  }
  SupervisorSettings settings;
  settings.priority = WorkerPriority::normal;
  settings.threads = threads;
  install_signal_handlers();
  Supervisor worker(settings, make_log("", ConsoleInfo::print, ""));
  worker.assign(path, "");
  Nanoseconds began{0}, last_report = now();
  std::int64_t first = 0;
  std::vector<ChunkRecord> records;  // nobody reads them here; they must not pile up
  for (;;) {
    const AssignedJob job = worker.job();
    if (job.state == AssignedState::finished) break;
    if (job.state == AssignedState::failed || job.state == AssignedState::quarantined)
      throw FileError(ExitCode::input_output, path, fmt::format("the job failed for good: {}", job.message));
    if (signals_seen().terminate > 0 || signals_seen().stop > 0) {
      worker.stop();
      fmt::print("stopped; the same command goes on from there\n");
      return ExitCode::stopped_early;
    }
    if (worker.wants_grant() && worker.parked()) worker.grant(kNoDeadline, Bytes{INT64_MAX});
    worker.wait_news(std::chrono::milliseconds(100));
    records.clear();
    worker.drain(records);
    if (job.state != AssignedState::ready) continue;
    if (began == Nanoseconds{0}) began = now(), first = job.done;
    if (now() - last_report >= kReportEvery) last_report = now(), tell(job, first, now() - began);
  }
  const JobState state = JobDirectory::open(path).read_state();
  fmt::print("{} is finished: {} chunks in {} of chunk time, {:.1f} samples/s; output in {}\n", state.name, state.done,
             format_duration(state.chunk_time), state.samples / to_seconds(state.chunk_time), path);
  return ExitCode::finished;
}

}  // namespace pipefill
