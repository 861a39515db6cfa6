// Waiting in a bubble, and telling what the waiting was: the bubble ends at the arrival of the input, whatever this
// rank did meanwhile and whenever it noticed; what lies between arrival and noticing is transfer (DESIGN section 5).
#pragma once

#include <utility>

#include "engine/bubble_fill.hpp"
#include "engine/profiler.hpp"
#include "engine/rank_services.hpp"
#include "engine/span_recorder.hpp"
#include "schedule/instruction.hpp"

namespace pipefill {

/// Where a wait stands in the schedule.
struct BubbleSlot {
  int index = -1;  ///< position of the Bubble, or of the OptimizerStep that waits, in the stage's program
  BubbleClass why = BubbleClass::steady;
};

class BubbleWatch {
 public:
  BubbleWatch(RankServices& services, SpanRecorder& spans, Profiler& profiler)
      : services_(services), spans_(spans), profiler_(profiler) {}

  /// Until done(); then splits the time since the last span at the arrival that `arrival()` tells.
  /// TransportError as Waiter.
  template <class Done, class TellArrival>
  void wait(BubbleSlot slot, const WaitSubject& subject, Bytes free_memory, EventKind after_arrival, Done&& done,
            TellArrival&& arrival) {
    if (BubbleFill* fill = services_.fill) {
      services_.waiter.wait_until(std::forward<Done>(done), subject,
                                  fill->enter(slot.index, spans_.cursor(), free_memory, sender_of(subject)));
      fill->leave();
      if (fill->step_is_filled()) after_arrival = EventKind::hand_over;
    } else {
      services_.waiter.wait_until(std::forward<Done>(done), subject);
    }
    record(slot, free_memory, after_arrival, arrival(), now());
  }

 private:
  /// Whose message ends the wait; -1: more than one's.
  static RankId sender_of(const WaitSubject& subject) {
    return subject.kind == WaitKind::receive ? subject.peer : RankId{-1};
  }
  void record(BubbleSlot slot, Bytes free_memory, EventKind after_arrival, Arrival arrival, Nanoseconds noticed);

  RankServices& services_;
  SpanRecorder& spans_;
  Profiler& profiler_;
};

}  // namespace pipefill
