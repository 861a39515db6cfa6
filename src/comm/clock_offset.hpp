// How far each rank's monotonic clock is from rank 0's. Ranks of one host share the clock: exactly 0. Others are
// measured by ping-pong at start and end (Cristian 1989: the exchange with the least round trip bounds the error by
// half of it).
#pragma once

#include <string>
#include <vector>

#include "comm/transport.hpp"
#include "comm/wait.hpp"

namespace pipefill {

/// time on rank 0 = local time + offset, true within +- uncertainty, read at local time `at`.
struct ClockReading {
  Nanoseconds offset{};
  Nanoseconds uncertainty{};
  Nanoseconds at{};
};

/// From `rounds` of (my send, rank 0's stamp, my receive): the reading with the least round trip.
struct ClockRound {
  Nanoseconds sent, remote, received;
};
ClockReading best_reading(const std::vector<ClockRound>& rounds);

/// Collective and blocking; the readings of all ranks, indexed by rank. `clock_domains[r]` as in RankInfo: ranks in
/// rank 0's domain get offset 0 and uncertainty 0 without measuring.
std::vector<ClockReading> measure_clock_offsets(Transport& transport, Waiter& waiter,
                                                const std::vector<std::string>& clock_domains);

/// The readings of the start, as a running rank uses them: drift since then is left out. The trace has both readings,
/// and puts its times on the straight line between them (trace/time_axis).
class ClockModel {
 public:
  ClockModel() = default;
  explicit ClockModel(std::vector<ClockReading> readings) : readings_(std::move(readings)) {}

  /// A time of rank `from`'s clock on rank `to`'s clock.
  Nanoseconds convert(Nanoseconds time, RankId from, RankId to) const;

 private:
  Nanoseconds offset(RankId rank) const;

  std::vector<ClockReading> readings_;
};

}  // namespace pipefill
