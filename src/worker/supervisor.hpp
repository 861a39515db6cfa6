// The rank's side of its fill worker: starts it, grants it bubbles, stops it (hard, when it must), notices crashes and
// hangs, retries a failing job with back-off and quarantines it after the third failure. Whatever the worker does, the
// rank goes on.
//
// Threads: the rank's main thread calls everything public. All that may take long (spawning, reaping, writing
// state.json, looking for escaped processes) is done by one helper thread, which sleeps on a pidfd. On the main thread
// grant, stop and park cost a few microseconds and never wait longer than the grace.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/units.hpp"
#include "comm/doorbells.hpp"
#include "fill_jobs/kind.hpp"
#include "worker/channel.hpp"
#include "worker/worker_process.hpp"

namespace pipefill {

/// process: a crash stays there. in_process: a thread of the rank; no hard stop, no limits, a crash kills the rank.
enum class FillIsolation { process, in_process };

struct SupervisorSettings {
  FillIsolation isolation = FillIsolation::process;
  WorkerPriority priority = WorkerPriority::idle;
  /// The worker process (worker_main); descriptor, process id and threads are appended to the arguments.
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments = {"pipefill", "fill-worker"};
  Nanoseconds grace = std::chrono::microseconds(500);  ///< from stop to hard stop
  Nanoseconds hang = std::chrono::seconds(10);         ///< granted time of one chunk after which the worker is killed
  /// The same for making, restoring and saving a job, in wall time: an idle worker may have to load gigabytes.
  Nanoseconds prepare = std::chrono::minutes(5);
  /// So many chunks that ran past the deadline they were thought to keep, and had to be stopped hard, are a failure,
  /// when they are more than this share of the chunks run. (Of a bubble that ended early, the job is not to blame.)
  std::int64_t overruns = 16;
  double overrun_share = 0.5;
  Nanoseconds back_off = std::chrono::seconds(1);  ///< before the second try; doubled for each further one
  int threads = 1;                                 ///< of jobs not pinned to another number
  ChunkRule rule{};                                ///< of the strategy
  FindKind find_kind = pipefill::find_kind;        ///< for in_process
  DoorbellPlace doorbell{};                        ///< the rank's; it outlives the supervisor
};

/// What has become of the job that is assigned, failures and retries included.
enum class AssignedState {
  none,
  starting,  ///< the worker starts or prepares it
  ready,     ///< has chunks to run
  waiting,   ///< failed; the next try comes when the back-off is over
  finished,
  failed,       ///< its description is wrong: never tried again
  quarantined,  ///< failed too often
};

struct AssignedJob {
  AssignedState state = AssignedState::none;
  std::uint64_t serial = 0;
  std::string directory;
  std::string configuration;  ///< the pinned one
  std::int64_t chunks = 0, done = 0;
  double samples = 0;
  int failures = 0;         ///< so far, over all runs
  std::string message;      ///< of the last failure
  Nanoseconds next_try{0};  ///< while waiting
};

/// How a bubble ended for the worker.
enum class ParkResult {
  parked,        ///< at a chunk boundary
  hard_stopped,  ///< not within the grace: SIGSTOP to all of it; SIGCONT comes with the next grant
  still_running  ///< in_process only: its chunk goes on, in the idle class
};

class Supervisor {
 public:
  Supervisor(SupervisorSettings settings, Log log);
  /// Asks the worker to save and leave, and kills it when it does not within a second.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Starts a worker unless there is one; the first one should be started before the model is allocated.
  void start();
  /// True when a worker is attached, waiting for it at most so long.
  bool wait_ready(Nanoseconds timeout);

  /// Runs the job in `directory` (see JobDirectory) from now on, in `configuration` unless another is pinned already;
  /// "" or "auto" leaves the choice to the kind. A job assigned before is dropped (its progress is kept). Returns the
  /// serial that the records of this assignment carry.
  std::uint64_t assign(const std::string& directory, const std::string& configuration);
  /// Takes the job away; its state is on disk already.
  void drop();
  /// Lets the job write its outputs so far.
  void save();
  AssignedJob job() const;

  /// True when a grant would be used: worker alive, job ready, chunks left.
  bool wants_grant() const;
  /// Lets the worker run until `deadline` (CLOCK_MONOTONIC) within `memory`. Undoes a hard stop.
  std::uint64_t grant(Nanoseconds deadline, Bytes memory);
  /// Sleeps until a chunk ends that is told (set_heard), the worker parks or dies, or for `timeout`. What the
  /// executor's Pause calls.
  FutexWake wait_news(Nanoseconds timeout);
  /// See WorkerChannel::set_heard; before wait_news.
  void set_heard(std::optional<std::uint32_t> heard);
  /// The grant is not used any more: every further look can wait for the arrival alone.
  bool parked() const;
  /// Ends the grant: stop word, at most `grace` of waiting, hard stop. Harmless without a grant.
  ParkResult stop();

  /// Records since the last call, oldest first.
  void drain(std::vector<ChunkRecord>& records);
  Nanoseconds hard_stopped_time() const;  ///< total, for the report
  std::int64_t hard_stops() const;
  std::int64_t restarts() const;  ///< workers started after the first
  int worker_pid() const;         ///< 0: none (or in_process)
  const WorkerChannel& channel() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pipefill
