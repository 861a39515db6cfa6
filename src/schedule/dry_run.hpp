// Runs all programs of a schedule together without durations: do they end, in which order, and who waits for whom if
// not.
#pragma once

#include <string>
#include <vector>

#include "schedule/dependencies.hpp"
#include "schedule/schedule.hpp"

namespace pipefill {

/// One instruction per stage and round, as far as everything comes.
struct DryRun {
  std::vector<Place> order;  ///< what ran, in an order that respects every dependency
  std::vector<Place> stuck;  ///< the instruction at which each unfinished stage stands
  std::string cycle;         ///< "stage 0 at 1 (0B0) waits for stage 1 at 3 (1B0), stage 1 at 1 ...", empty if complete
  bool complete() const { return stuck.empty(); }
};
DryRun dry_run(const Schedule& schedule, SendMode mode = SendMode::eager);

/// Whether the schedule also runs when every send waits for its receive to be posted (large messages, MPI_Ssend).
struct SendSafety {
  std::vector<Place> stuck;
  std::string text;  ///< "unsafe under synchronous sends: stage 0 at 4 (0SEND_F2>1), stage 1 at ...", empty if safe
  explicit operator bool() const { return stuck.empty(); }
};
SendSafety is_safe_under_synchronous_sends(const Schedule& schedule);

}  // namespace pipefill
