// The ASCII drawing of a priced schedule: one line per stage, time to the right, dots where a stage waits.
//
//   stage 0 |F0 F1 F2 F3 ..................B0----F4 B1----|
//
// F, B, I, W with the microbatch (and ".k" for the stage's k-th chunk when it has several); O is the optimizer step.
#pragma once

#include <string>

#include "schedule/cost_model.hpp"
#include "schedule/schedule.hpp"
#include "schedule/timeline.hpp"

namespace pipefill {

/// A title line and one line per stage, each ending in a newline. Exact, with one label per time unit (the greatest
/// common divisor of all durations), where that fits into `max_width` characters; otherwise scaled to `max_width`, with
/// the bare letter where a label does not fit.
std::string draw(const Schedule& schedule, const CostModel& costs, const Timeline& timeline, int max_width = 120);

}  // namespace pipefill
