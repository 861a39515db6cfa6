// How long a message of a given size is under way between two ranks, measured at start. MPI tells no arrival, so
// arrival = sender's ready stamp (clock corrected) + this (DESIGN section 5, "bubble").
#pragma once

#include <vector>

#include "comm/transport.hpp"
#include "comm/wait.hpp"

namespace pipefill {

/// One way, by message size; between the sizes a straight line, below the least size its time, above the largest
/// the slope of the last segment. Non-decreasing in size.
class TransferTime {
 public:
  struct Point {
    Bytes size;
    Nanoseconds time;
  };
  TransferTime() = default;
  /// Any order; made non-decreasing. No points: zero for every size.
  explicit TransferTime(std::vector<Point> points);
  Nanoseconds operator()(Bytes size) const;
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

/// Half the median round trip for each size, with every pipeline neighbour. Collective over all ranks and blocking:
/// even-odd pairs first, then odd-even, so that no pair disturbs its neighbours more than training would. `sizes` are
/// whole messages, header included. Result: by rank, empty for ranks that are no neighbour of this one. The first and
/// last stage of a replica are neighbours too (tied weights, interleaved schedules).
std::vector<TransferTime> measure_transfer_times(Transport& transport, Waiter& waiter, ProcessLayout layout,
                                                 const std::vector<Bytes>& sizes, int repeats = 15);

}  // namespace pipefill
