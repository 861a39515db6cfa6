// Pricing: Schedule + CostModel -> when everything starts and ends, every bubble, every slack, memory at its peak.
// Model of communication: a message leaves at its send, arrives one hop later, and costs neither stage any time.
#pragma once

#include <vector>

#include "base/units.hpp"
#include "schedule/cost_model.hpp"
#include "schedule/schedule.hpp"

namespace pipefill {

/// Times count from the start of the step. A Bubble lasts as long as the stage waits there, possibly not at all.
struct TimedInstruction {
  Nanoseconds start{};
  Nanoseconds end{};
  Nanoseconds slack{};  ///< how much later it may end without a later end of the step
};

/// Time a stage has nothing to run. Zero-long bubbles are listed when the schedule has a Bubble there.
struct TimedBubble {
  int slot = -1;  ///< position of the Bubble in the program; -1 for an end of the step, or where none was inserted
  BubbleClass why = BubbleClass::steady;
  Nanoseconds start{};
  Nanoseconds end{};
  Nanoseconds duration() const { return end - start; }
};

struct StageTimeline {
  std::vector<TimedInstruction> instructions;  ///< parallel to the stage's program
  std::vector<TimedBubble> bubbles;            ///< in time order; the last one may be the wait for the end of the step
  Nanoseconds busy{};                          ///< compute and optimizer
  Nanoseconds idle{};                          ///< all bubbles; busy + idle = makespan
  double peak_microbatches = 0;                ///< activations held at once, in microbatches of all the stage's chunks
  Bytes peak_activations;                      ///< the same in bytes (its peak may be at another time)
  Bytes peak_memory;                           ///< fixed + peak_activations
};

struct Timeline {
  std::vector<StageTimeline> stages;
  Nanoseconds makespan{};                  ///< the step time
  double bubble_fraction = 0;              ///< sum of idle / (stages x makespan), "global"
  double device_span_bubble_fraction = 0;  ///< 1 - mean busy / longest (last end - first start) of a stage
};

/// The schedule must be valid (validate) and the costs have its chunks and stages, else ScheduleError.
Timeline price(const Schedule& schedule, const CostModel& costs);

}  // namespace pipefill
