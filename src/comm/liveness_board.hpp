// What every rank of a host is doing right now, in memory they share: pid, stage, step, activity, wait, heart beat.
// Written by the owner with relaxed atomics (a few ns), read by the others' watchdogs. Never touches MPI after birth.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/id.hpp"
#include "comm/activity.hpp"
#include "comm/process_layout.hpp"

namespace pipefill {

class Cluster;

/// One rank as others see it.
struct RankState {
  RankId rank;
  int pid = 0;
  std::uint64_t pid_namespace = 0;
  std::int64_t step = 0;
  Activity activity;
  WaitSubject waiting;  ///< kind none: computing
  std::uint64_t heart_beats = 0;
  std::uint64_t progress = 0;  ///< changes whenever the main thread does
  bool reported = false;       ///< its watchdog has logged a loss
  bool finished = false;       ///< left on purpose
};

class LivenessBoard {
 public:
  /// Collective over the ranks of each host; shared memory, mode 0600, unlinked before this returns.
  explicit LivenessBoard(const Cluster& cluster);
  /// Rows for `ranks` in anonymous shared memory (threads, forked children: tests); `mine` is this view's own row.
  LivenessBoard(std::vector<RankId> ranks, RankId mine);
  /// Another rank's view of the same board (threads; after fork).
  LivenessBoard view(RankId mine) const;
  ~LivenessBoard();
  LivenessBoard(LivenessBoard&&) noexcept;
  LivenessBoard& operator=(LivenessBoard&&) noexcept;

  // This rank's row.
  void enrol();  ///< writes pid and its namespace; the constructors do, a forked child calls it again
  void step(std::int64_t step);
  void doing(Activity activity);
  void waiting(const WaitSubject& subject);  ///< kind none: no longer
  void beat();                               ///< the watchdog thread only
  void report();                             ///< the watchdog thread only: a loss is in the log
  void finish();                             ///< before leaving on purpose: an exit from now on is no loss

  RankId mine() const;
  const std::vector<RankId>& ranks() const;  ///< of this host, ascending
  RankState state(RankId rank) const;

 private:
  struct Memory;
  LivenessBoard(std::shared_ptr<Memory> memory, RankId mine);
  std::shared_ptr<Memory> memory_;
  std::size_t row_ = 0;
};

}  // namespace pipefill
