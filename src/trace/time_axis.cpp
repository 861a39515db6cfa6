// Clock offsets and the order of attempts.
#include "trace/time_axis.hpp"

#include <algorithm>
#include <cmath>

namespace pipefill {

std::int64_t on_rank_zero_clock(std::int64_t own_ns, const RankRow& rank) {
  const std::int64_t span = rank.clock_end_at_ns - rank.clock_start_at_ns;
  const bool measured_twice = rank.clock_end_uncertainty_ns >= 0 && span > 0;
  double drift = 0;
  if (measured_twice) {
    drift = static_cast<double>(rank.clock_end_offset_ns - rank.clock_start_offset_ns) / static_cast<double>(span);
  }
  const double since = static_cast<double>(own_ns - rank.clock_start_at_ns);
  return own_ns + rank.clock_start_offset_ns + std::llround(drift * since);
}

TimeAxis::TimeAxis(std::span<const RankRow> ranks) {
  struct Attempt {
    std::int64_t start = INT64_MAX, end = INT64_MIN;  ///< rank-0 clock of this attempt
    double wall = 0;                                  ///< at `start`
  };
  std::map<std::int32_t, Attempt> attempts;
  for (const RankRow& rank : ranks) {
    Attempt& attempt = attempts[rank.attempt];
    const std::int64_t start = on_rank_zero_clock(rank.start_ns, rank);
    if (start < attempt.start) {
      attempt.start = start;
      attempt.wall = rank.start_wall_s;
    }
    const std::int64_t last = std::max(rank.end_ns, rank.last_event_ns);
    attempt.end = std::max({attempt.end, start, last < 0 ? start : on_rank_zero_clock(last, rank)});
  }
  std::int64_t free_from = 0;
  for (const auto& [number, attempt] : attempts) {
    const double wait = 1e9 * (attempt.wall - attempts.begin()->second.wall);
    const auto by_wall = std::isfinite(wait) && std::abs(wait) < 1e18 ? static_cast<std::int64_t>(wait) : 0;
    const std::int64_t begin = std::max(free_from, by_wall);
    shift_[number] = begin - attempt.start;
    free_from = begin + (attempt.end - attempt.start);
  }
}

std::int64_t TimeAxis::place(std::int64_t own_ns, const RankRow& rank) const {
  return on_rank_zero_clock(own_ns, rank) + shift_.at(rank.attempt);
}

RankRow TimeAxis::place(const RankRow& rank) const {
  RankRow placed = rank;
  placed.start_ns = place(rank.start_ns, rank);
  if (rank.end_ns >= 0) placed.end_ns = place(rank.end_ns, rank);
  if (rank.last_event_ns >= 0) placed.last_event_ns = place(rank.last_event_ns, rank);
  return placed;
}

}  // namespace pipefill
