// Turns a rank's life into spans that lie back to back: each one starts where the last one ended, so that they add up
// to the wall time without anything being forced.
#pragma once

#include "base/clock.hpp"
#include "trace/trace.hpp"

namespace pipefill {

class SpanRecorder {
 public:
  explicit SpanRecorder(Trace& trace, Nanoseconds start = now()) : trace_(trace), cursor_(start) {}

  /// Where the next span starts.
  Nanoseconds cursor() const { return cursor_; }
  void set_step(std::int64_t step) { step_ = static_cast<std::int32_t>(step); }

  /// Records [cursor, until] with the fields of `event` (its times and step are set here); returns its length.
  Nanoseconds close(Event event, Nanoseconds until = now()) {
    event.start = cursor_, event.end = until, event.step = step_;
    trace_.record(event);
    cursor_ = until;
    return event.end - event.start;
  }
  Nanoseconds close(EventKind kind, Nanoseconds until = now()) { return close(Event{.kind = kind}, until); }

 private:
  Trace& trace_;
  Nanoseconds cursor_;
  std::int32_t step_ = -1;
};

}  // namespace pipefill
