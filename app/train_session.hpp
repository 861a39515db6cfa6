// One start of the main job on one rank: everything that lives from MPI's start to its end, built in the order in which
// it is needed and taken down in reverse.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "base/error.hpp"
#include "comm/cluster.hpp"
#include "comm/mpi_transport.hpp"
#include "comm/watchdog.hpp"
#include "config/run_plan.hpp"
#include "data/token_data.hpp"
#include "device/cpu/binding.hpp"
#include "device/cpu/cpu_device.hpp"
#include "engine/fill_session.hpp"
#include "engine/status_file.hpp"
#include "start_up_watch.hpp"
#include "storage/hdf5_thread.hpp"
#include "storage/run_lock.hpp"
#include "train_resume.hpp"

namespace pipefill {

class TrainSession {
 public:
  /// Collective. `config` is validated for the cluster's size. Throws as its parts do.
  TrainSession(Cluster& cluster, const RunConfig& config, ResumeChoice resume, Nanoseconds started);
  TrainSession(const TrainSession&) = delete;
  TrainSession& operator=(const TrainSession&) = delete;
  ~TrainSession();
  /// The run, its summary, its files; what it returns is the program's exit code.
  ExitCode run();

 private:
  ExitCode run_from(const StartingPoint& start);
  // Parts of run_from, in its order.
  TokenData open_tokens();
  std::unique_ptr<Trace> open_trace(const RunPlan& plan, int attempt);
  void open_fill(std::optional<Doorbells>& doorbells, std::optional<FillSession>& fill, const RunPlan& plan,
                 RankServices& services);
  /// Returns the memory that was planned for it.
  Bytes build_stage(std::optional<Stage>& stage, const RunPlan& plan, CpuDevice& device);
  void open_reporter(std::optional<RunReporter>& reporter, const RunState& state, const StartingPoint& start);
  void close_trace(Trace& trace, SpanRecorder& spans);

  void open_run_directory();
  void stop_before_first_step();
  void log_start(const StartingPoint& start, const RunPlan& plan) const;
  /// Rank 0's clock against the others', and what a message between neighbours takes.
  ArrivalClock measure_network(std::int64_t message_bytes);
  std::vector<std::string> clock_domains() const;
  RunDescription describe_run(const RunPlan& plan, int attempt) const;
  RankDescription describe_rank(const std::vector<ClockReading>& clocks) const;
  ExitCode end_run(const TrainingResult& result, std::optional<std::int64_t> last_checkpoint);
  /// From any thread: the watchdog's and the main one may both find out.
  void tell_failure(const std::string& reason, ExitCode code) noexcept;
  void summarise_trace();
  int threads() const;  ///< of the OpenMP team
  bool is_first() const { return cluster_.rank().value == 0; }

  Cluster& cluster_;
  RunConfig config_;
  ResumeChoice resume_;
  Nanoseconds started_;
  double started_wall_;
  ProcessLayout layout_;
  RunDirectory directory_;
  Log log_;
  CoreShare cores_;
  MpiTransport transport_;
  std::unique_ptr<LivenessBoard> board_;
  Waiter waiter_;
  RankGroup ranks_;
  StatusFile status_file_;
  std::mutex status_mutex_;
  std::atomic<bool> status_is_of_this_start_ = false;  ///< before that, status.json tells of an earlier one
  RunStatus status_;  ///< what stays the same for a whole start; phase and step are filled in where it is written
  std::optional<RunLock> lock_;
  Hdf5Thread hdf5_;
  std::unique_ptr<Watchdog> watchdog_;
  std::optional<StartUpWatch> start_up_watch_;  ///< until the first step
  std::vector<ClockReading> clocks_at_start_;
  Nanoseconds hop_{};
};

}  // namespace pipefill
