// The fill workers of one rank, one process for each job that shares the rank's bubbles. One of them at a time has the
// grant: the job that came first takes of a bubble what it can use, the next one what that leaves over, and so on. So
// no job is slowed down by those that came after it, and whatever one does, the others do not feel it: one that does
// not end its chunk in several bubbles has its claim behind the others'.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "fill/recent_times.hpp"
#include "worker/supervisor.hpp"

namespace pipefill {

/// A job as a crew is given it.
struct CrewJob {
  std::int32_t number = -1;
  std::string directory{};
  std::string configuration{};
  Bytes resident{};  ///< its state: in memory as long as the crew has the job
};

/// A worker with the job it has, if any.
struct CrewMember {
  explicit CrewMember(std::unique_ptr<Supervisor> supervisor) : worker(std::move(supervisor)) {}
  /// Takes note of how long a finished chunk took.
  void learn(const ChunkRecord& chunk);
  /// What bubbles are sold for: the median time of its chunks; zero while it is not known, and again when it has kept
  /// the job out of the bubbles for so long that it is doubted.
  Nanoseconds usual_chunk() const;
  /// Whose chunk it was: that of the job before, if that one was taken away while it ran; -1: of none that is known.
  std::int32_t job_of(const ChunkRecord& chunk) const { return job >= 0 && chunk.serial == serial ? job : former_job; }

  std::unique_ptr<Supervisor> worker;
  std::int32_t job = -1;
  std::uint64_t serial = 0;  ///< of its assignment, which its records carry
  std::int32_t former_job = -1;
  Bytes resident{};
  Nanoseconds fill_time{};             ///< of the job, in bubbles, since it came
  std::map<int, RecentTimes> times{};  ///< of its chunks by cost class, since it came
  RecentTimes lengths{};               ///< of the last of all classes
  Nanoseconds deadline{};              ///< of the next grant, or the present one: when its chunks have to be over
  bool offered = false;                ///< in this step: something of a bubble
  int skipped = 0;                     ///< grants in a row that were too short for it, or steps without an offer
  int stops = 0;                       ///< hard ones in a row, since it last came to rest by itself
};

class FillCrew {
 public:
  FillCrew(SupervisorSettings settings, Log log);

  /// Starts the first worker; those of further jobs start with them.
  void start();

  /// The job joins behind those that are there, on a worker that has none, or on a new one.
  void assign(const CrewJob& job);
  /// The job is over or taken away: its worker is free, and saves its state when it still has it.
  void release(std::int32_t number);
  bool has_jobs() const { return jobs_ > 0; }
  std::size_t jobs() const { return jobs_; }
  /// Those with a job, in the order in which they came, then those without.
  const std::vector<std::unique_ptr<CrewMember>>& members() const { return members_; }
  CrewMember* find(std::int32_t number);

  // ---- the rank's bubbles, as with one Supervisor ----

  /// True when somebody would use a grant.
  bool wants_grant() const;
  /// Lets one after the other run, each until its deadline, within `memory`, which is for a chunk and the states of all
  /// jobs.
  void grant(Bytes memory);
  /// Lets one after the other run until it is told to stop, whatever the memory.
  void grant_without_deadline();
  /// The same for one of them alone.
  void grant_only(CrewMember& member);
  /// Sleeps until the one that runs has news, or for `timeout`.
  void wait_news(Nanoseconds timeout);
  /// Of the one that runs.
  Nanoseconds deadline() const { return current_->deadline; }
  /// See WorkerChannel::set_heard; of the one that runs.
  void set_heard(std::optional<std::uint32_t> heard) { current_->worker->set_heard(heard); }
  /// True while somebody uses the grant. Hands it on when the one that had it has parked.
  bool busy();
  /// Nobody uses the grant now; does not hand it on.
  bool parked() const { return current_ == nullptr || current_->worker->parked(); }
  /// Ends the grant; see Supervisor::stop.
  void stop();

  std::int64_t hard_stops() const;
  Nanoseconds hard_stopped_time() const;

 private:
  enum class Claim { usual, behind, preparing };
  static Claim claim(const CrewMember& member);
  bool can_use(CrewMember& member) const;
  bool hand_on();

  SupervisorSettings settings_;
  Log log_;
  std::vector<std::unique_ptr<CrewMember>> members_;  ///< with a job in the order of their coming, then without
  std::size_t jobs_ = 0;

  CrewMember* current_ = nullptr;   ///< has the grant, or had it last; null: nobody can use it
  std::vector<CrewMember*> asked_;  ///< had this grant already
  Bytes memory_{};
};

}  // namespace pipefill
