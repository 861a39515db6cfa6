// The one clock of a rank: monotonic nanoseconds. Wall time is for people (log lines), never for scheduling.
#pragma once

#include "base/units.hpp"

namespace pipefill {

/// CLOCK_MONOTONIC of this host. Two hosts' clocks differ by an offset that comm/clock_offset measures.
inline Nanoseconds now() {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace pipefill
