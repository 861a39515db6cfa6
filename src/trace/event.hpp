// One thing that took time on a rank. A rank's events lie back to back: what belongs to nothing else is `other`,
// recorded like the rest, so that their sum is the wall time.
#pragma once

#include <cstdint>

#include "base/units.hpp"

namespace pipefill {

enum class EventKind : std::uint8_t {
  forward,
  backward,  ///< full backward, input and weight part
  backward_input,
  backward_weight,
  optimizer,
  transfer,    ///< from the arrival of a message to the start of what it was waited for; also posting sends
  collective,  ///< the same for collectives
  checkpoint,
  data,  ///< tokens fetched
  validation,
  start_up,  ///< before the first step: MPI, data, memory, a checkpoint loaded
  bubble_warm_up,
  bubble_steady,
  bubble_cool_down,
  bubble_collective,
  bubble_step_boundary,
  hand_over,  ///< a bubble with fill work: from the arrival to the start of what it was waited for
  other,      ///< bookkeeping of the run itself
  fill,       ///< a fill chunk, or part of one, inside a bubble (lies over it; not part of the sum)
  overrun,    ///< fill time outside bubbles: after the arrival, or where nothing was gated
  exclusive,  ///< a whole fill chunk with the main job absent, before the first step or after the last: its cost alone
};
inline constexpr int kEventKinds = static_cast<int>(EventKind::exclusive) + 1;

/// "bubble_warm_up" and so on: the names in the trace file's enum.
const char* event_kind_name(EventKind kind);
/// The bubble classes, from waiting for a neighbour to waiting for all.
bool is_bubble(EventKind kind);
/// Fill work lies over other events: it is reported apart and is no part of the wall time's sum.
bool is_fill_work(EventKind kind);

/// -1 where a field does not apply. Times are the rank's monotonic clock.
struct Event {
  EventKind kind = EventKind::other;
  std::int32_t step = -1;
  std::int16_t model_chunk = -1;
  std::int16_t microbatch = -1;
  std::int32_t slot =
      -1;  ///< bubbles: position of the Bubble, or of the OptimizerStep that waits, in the stage's program
  std::int32_t job = -1;
  std::int32_t fill_chunk = -1;
  std::int16_t cost_class = -1;  ///< fill work: of the chunk that this event finished; -1: it goes on in a later one
  Nanoseconds start{};
  Nanoseconds end{};
  Nanoseconds transfer{};  ///< bubbles: the part after the sender was ready, i.e. the message under way
  Nanoseconds granted{};   ///< bubbles: of their length, sold to fill work; fill: CPU time of a program without chunks
  std::int64_t bytes = 0;  ///< bubbles: free memory; transfers: payload
};

}  // namespace pipefill
