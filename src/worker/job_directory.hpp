// fill/<job>/: all there is of a job. job.yaml (as its owner wrote it), state.json (how it stands, for people, the
// scheduler and the next run), state.bin (job_state.hpp), stdout, stderr, and whatever its kind writes. A lock keeps
// two workers off the same job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/units.hpp"
#include "storage/atomic_file.hpp"
#include "worker/job_file.hpp"

namespace pipefill {

enum class JobStatus { submitted, running, finished, failed, quarantined, cancelled };
std::string_view status_name(JobStatus status);
inline constexpr std::int64_t kDivided = -1;

/// state.json. While the job runs, how far it is stands in state.bin; this is renewed when something else changes.
struct JobState {
  JobStatus status = JobStatus::submitted;
  std::string name, kind, owner;
  std::string base_directory;          ///< where relative paths in its parameters start
  std::int64_t shard = 0, shards = 1;  ///< which part it is; kDivided: none, its parts do the work (job_parts.hpp)
  std::string configuration;           ///< empty until the first run, then pinned
  std::int32_t threads = 0;            ///< pinned with it
  std::int64_t chunks = 0, done = 0;
  double samples = 0;
  int failures = 0;
  std::string message;         ///< why it failed last
  std::int64_t failed_at = 0;  ///< chunks done at that time: progress since then makes up for earlier failures
  Nanoseconds cpu_time{0};     ///< of it and all it started, in grants
  Nanoseconds chunk_time{0};   ///< of its chunks without hard stops; run alone, this is its exclusive time
  friend bool operator==(const JobState&, const JobState&) = default;
};

class JobDirectory {
 public:
  /// Makes the directory with job.yaml and a first state.json. FileError 73 when it exists.
  static JobDirectory create(const std::string& path, std::string_view job_text, const JobState& first);
  /// FileError 66 when there is none.
  static JobDirectory open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  /// As read_fill_job.
  FillJobSpec read_spec(const std::vector<std::string>& kinds) const;
  /// FileError 66 or 65 with what is wrong.
  JobState read_state() const;
  void write_state(const JobState& state) const;
  /// Bytes of all files in it, links not followed; without plan.json, which is not the job's doing.
  Bytes size() const;

 private:
  explicit JobDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// Held by the worker that runs the job; the kernel drops it when the worker ends however it ends.
class JobLock {
 public:
  /// FileError 73 when another worker runs it.
  static JobLock take(const JobDirectory& directory);

 private:
  explicit JobLock(FileDescriptor file) : file_(std::move(file)) {}
  FileDescriptor file_;
};

}  // namespace pipefill
