// The ASCII drawing of a priced schedule: one line per stage, time to the right, dots where a stage waits.
//
//   stage 0 |F0 F1 F2 F3 ..................B0----F4 B1----|
//
// F, B, I, W with the microbatch (and ".k" for the stage's k-th chunk when it has several); O is the optimizer step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/cost_model.hpp"
#include "schedule/schedule.hpp"
#include "schedule/timeline.hpp"

namespace pipefill {

/// Equal pieces of other work, one behind the other, in a stage's bubble.
struct DrawnWork {
  int stage = 0;
  Nanoseconds start{};  ///< of the first one, from the start of the step
  Nanoseconds each{};
  std::int64_t count = 1;
  char mark = 'a';
};

/// A title line and one line per stage, each ending in a newline. Exact, with one label per time unit (the greatest
/// common divisor of all durations), where that fits into `max_width` characters; otherwise scaled to `max_width`, with
/// the bare letter where a label does not fit. `work` is drawn over the dots: its mark, then ~ to the end of each
/// piece.
std::string draw(const Schedule& schedule, const CostModel& costs, const Timeline& timeline, int max_width = 120,
                 const std::vector<DrawnWork>& work = {});

}  // namespace pipefill
