// One job in the hands of a worker: its kind created, its configuration pinned, its state mapped. Everything that may
// fail throws; what the kind itself said comes as a KindError.
#pragma once

#include <pipefill/fill_job.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fill_jobs/kind.hpp"
#include "worker/job_directory.hpp"
#include "worker/job_state.hpp"

namespace pipefill {

/// A function of the kind did not return OK.
struct KindError : Error {
  KindError(std::int32_t what, const std::string& text) : Error(ExitCode::input_output, text), result(what) {}
  std::int32_t result;  ///< pipefill_fill_result
};

class JobRun {
 public:
  /// Takes the lock, reads job.yaml and state.json, creates the kind, picks the configuration (the pinned one;
  /// else `configuration`; else the job file's; else the kind's first that fits limits.memory), maps the state and
  /// restores. `threads` unless pinned already. Writes plan.json once and state.json (running).
  static JobRun load(const std::string& directory, const std::string& configuration, int threads, FindKind find_kind);
  /// Writes plan.json of a job that need not run now: creates its kind, asks, lets go of it.
  static void plan(const std::string& directory, FindKind find_kind);
  /// Joins the outputs of a divided job's parts, which must be finished, and says in its state.json that it is.
  static void merge(const std::string& directory, FindKind find_kind);
  JobRun(JobRun&&) = default;
  JobRun& operator=(JobRun&&) = delete;
  ~JobRun() = default;

  const FillJobSpec& spec() const { return spec_; }
  const JobState& state() const { return state_; }
  const JobDirectory& directory() const { return directory_; }
  const pipefill_fill_configuration& configuration() const { return configuration_; }
  bool is_command() const;
  const pipefill_fill_job* job() const { return job_.get(); }

  std::int64_t chunks() const { return configuration_.chunks; }
  std::int64_t done() const { return state_file_->done(); }
  /// What the next chunk costs.
  const pipefill_fill_chunk& next();
  /// Runs it: OK or INTERRUPTED; anything else is thrown.
  std::int32_t run(const pipefill_fill_grant& grant);
  void count_done(Nanoseconds cpu, Nanoseconds chunk);  ///< the chunk is finished
  void count_times(Nanoseconds cpu, Nanoseconds chunk) { state_file_->add_times(cpu, chunk); }
  /// Outputs and state, on the disk.
  void save();
  /// Says in state.json how it stands when the worker lets go of it.
  void write_state(JobStatus status);

 private:
  struct Destroy {
    const pipefill_fill_kind* kind;
    void operator()(pipefill_fill_job* job) const { kind->destroy(job); }
  };
  explicit JobRun(JobDirectory directory, JobLock lock) : directory_(std::move(directory)), lock_(std::move(lock)) {}
  struct Setup;
  Setup prepare(int threads, FindKind find_kind);
  void create(int threads, FindKind find_kind);
  std::vector<pipefill_fill_configuration> offered();
  void choose(const std::string& wanted);
  void write_plan(const std::vector<pipefill_fill_configuration>& offered);

  JobDirectory directory_;
  JobLock lock_;
  FillJobSpec spec_;
  JobState state_;
  const pipefill_fill_kind* kind_ = nullptr;
  std::unique_ptr<JobStateFile> state_file_;  // outlives the job that holds its address
  std::unique_ptr<pipefill_fill_job, Destroy> job_{nullptr, Destroy{nullptr}};
  pipefill_fill_configuration configuration_ = {};
  int configuration_index_ = 0;
  std::vector<pipefill_fill_chunk> ahead_;  ///< costs of the chunks from ahead_first_ on
  std::int64_t ahead_first_ = 0;
};

}  // namespace pipefill
