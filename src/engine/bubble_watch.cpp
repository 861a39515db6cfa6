#include "engine/bubble_watch.hpp"

#include <algorithm>

namespace pipefill {
namespace {

EventKind event_of(BubbleClass why) {
  switch (why) {
    case BubbleClass::warm_up:
      return EventKind::bubble_warm_up;
    case BubbleClass::steady:
      return EventKind::bubble_steady;
    case BubbleClass::cool_down:
      return EventKind::bubble_cool_down;
    case BubbleClass::collective:
      return EventKind::bubble_collective;
    case BubbleClass::step_boundary:
      return EventKind::bubble_step_boundary;
  }
  return EventKind::other;
}

}  // namespace

void BubbleWatch::record(BubbleSlot slot, Bytes free_memory, EventKind after_arrival, Arrival arrival,
                         Nanoseconds noticed) {
  const Nanoseconds start = spans_.cursor();
  const Nanoseconds end = std::clamp(arrival.arrival, start, noticed);
  const Nanoseconds ready = std::clamp(arrival.ready, start, end);
  const Nanoseconds sold =
      services_.fill != nullptr ? services_.fill->record(slot.index, start, end, free_memory) : Nanoseconds{0};
  spans_.close(Event{.kind = event_of(slot.why),
                     .slot = slot.index,
                     .transfer = end - ready,
                     .granted = std::min(sold, end - start),
                     .bytes = free_memory.count},
               end);
  profiler_.add_bubble(end - start);
  if (noticed > end) spans_.close(after_arrival, noticed);
}

}  // namespace pipefill
