// One time axis for all ranks and attempts: nanoseconds since the run's first start, on rank 0's clock.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "trace/rows.hpp"

namespace pipefill {

/// rank-0 time of a rank's own time: the offset measured at the start, or, when it was measured again at the end, the
/// straight line between the two (clock drift), extended beyond both.
std::int64_t on_rank_zero_clock(std::int64_t own_ns, const RankRow& rank);

class TimeAxis {
 public:
  /// From the rows of /ranks as segments hold them: one for each rank and attempt. An attempt begins on the axis where
  /// the wall clock puts it after the first one's start, but never before the one before it has ended: attempts may
  /// run on hosts with other clocks.
  explicit TimeAxis(std::span<const RankRow> ranks);

  std::int64_t place(std::int64_t own_ns, const RankRow& rank) const;
  /// The row with start_ns, end_ns and last_event_ns on the axis; the clock fields stay on its own clock.
  RankRow place(const RankRow& rank) const;

 private:
  std::map<std::int32_t, std::int64_t> shift_;  ///< by attempt: axis - rank-0 clock
};

}  // namespace pipefill
