// How far into a bubble of unknown length fill chunks may run. A worker stops at the end of the chunk in which the
// input arrives, so each chunk risks an overrun: the rest of it after the arrival. A chunk is worth starting as long as
// the overrun to be expected of it is a small share of its length; then all overruns together are at most that share of
// the fill time, however the lengths scatter, as far as chunks are as long as they are sold for.
#pragma once

#include <span>

#include "base/units.hpp"

namespace pipefill {

/// The latest end of a chunk worth starting, chunk after chunk from `elapsed` on; `elapsed` itself when not even the
/// first one is. Times count from the bubble's beginning.
/// `lengths`: how long such bubbles last, ascending, only those above `elapsed`; not empty. `chunk` > 0: a chunk's
/// time. `overrun_share`: the expected overrun of a chunk / its length, at most; 0 (sells up to the shortest length) ..
/// below 1. Never allocates; two passes over the lengths.
Nanoseconds sell_until(std::span<const Nanoseconds> lengths, Nanoseconds elapsed, Nanoseconds chunk,
                       double overrun_share);

}  // namespace pipefill
