// Rank 0's back office of fill work: a thread that watches the queue, makes jobs' directories, has their costs planned
// in a process of its own (a kind may be a user's library), divides jobs and joins their parts, and keeps what is known
// of every job. All that touches files happens on this thread; the main thread takes and gives values.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "fill/policy.hpp"
#include "worker/queue.hpp"

namespace pipefill {

struct FillClerkSettings {
  std::string run_directory;
  std::vector<std::string> deck_jobs{};                                ///< job files that the deck names
  std::vector<std::string> planner{"/proc/self/exe", "fill-planner"};  ///< gets the job's directory appended
  std::vector<std::string> joiner{"/proc/self/exe", "fill-joiner"};    ///< the same
  Nanoseconds look_every{500'000'000};                                 ///< how often the queue is looked at
};

/// One job as the scheduler sees it.
struct ClerkJob {
  FillJobInfo info;
  std::string directory;
  bool cancelled = false;  ///< its owner wants it gone
};

enum class OutcomeState { running, over };

/// What an executor has to say of the job it was given. over: its state.json says how it ended.
struct JobOutcome {
  std::int64_t job = 0;
  OutcomeState state = OutcomeState::running;
  std::int64_t done = 0;
  Nanoseconds fill_time{};  ///< since the last report
  /// What its chunks took lately, by cost class; empty: not known.
  std::vector<std::pair<int, Nanoseconds>> times{};
};

class FillClerk {
 public:
  /// Submits the deck's jobs that the run does not know yet. DeckError for a job file that is wrong, FileError for one
  /// that is not there.
  FillClerk(FillClerkSettings settings, Log log);
  ~FillClerk();
  FillClerk(const FillClerk&) = delete;
  FillClerk& operator=(const FillClerk&) = delete;

  /// Whether there was any job at the start.
  bool has_jobs() const { return has_jobs_; }
  /// True once after a job became ready to be given away, or is to be taken back.
  bool take_news();
  /// Until the jobs that are in the queue now are planned (or refused), or the time is over.
  void wait_for_plans(Nanoseconds timeout);
  /// Jobs that wait for an executor and were not cancelled.
  std::vector<ClerkJob> waiting();
  std::optional<ClerkJob> find(std::int64_t number);
  /// The job is to be divided: it waits no more, its parts will, as jobs of their own.
  void divide(const FillDecision& decision);
  /// The job runs on `rank` from now on; a line in fill/decisions.jsonl says why.
  void hand_out(const FillDecision& decision, std::int64_t step, int rank);
  void note(const JobOutcome& outcome);
  /// Fill time that every owner had so far.
  std::map<std::string, Nanoseconds> owner_time();
  /// {"name": {"done": chunks, "over": bool}}: progress of all jobs, for the checkpoint's manifest.
  std::string progress();

 private:
  enum class Place;
  struct Known;
  void run();
  void look();
  void cancel(std::int64_t number);
  void plan(const QueueEntry& entry);
  /// Plans the job in the directory unless it is planned. What comes of it: waiting, or over.
  Known prepare(const QueueEntry& entry, const std::string& path, std::int64_t number, const std::string& name);
  void settle(std::int64_t number, Known known);
  void make_parts(const QueueEntry& entry);
  void join_parts();
  bool join(const QueueEntry& entry);
  void retire(const QueueEntry& entry);

  FillClerkSettings settings_;
  Log log_;
  FillQueue queue_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Known> known_;  ///< by number
  std::map<std::string, Nanoseconds> owner_time_;
  bool has_jobs_ = false, news_ = false, ends_ = false, looked_ = false, wakes_ = false;
  std::thread thread_;
};

}  // namespace pipefill
