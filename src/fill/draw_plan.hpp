// A fill plan beside the schedule it is for: the bubbles of a priced stage as a cycle, and the plan's chunks as marks
// in the schedule's drawing.
#pragma once

#include <vector>

#include "fill/plan_fill.hpp"
#include "schedule/draw.hpp"
#include "schedule/timeline.hpp"

namespace pipefill {

/// The bubbles of a stage that last any time and have a slot; `memory` is free beside the main job.
BubbleCycle priced_cycle(const StageTimeline& stage, Bytes memory);

/// Where the chunks of `plan`, made for priced_cycle(stage), lie in time, one behind the other in each bubble. Jobs are
/// marked a, b, c, ... in the order of `jobs`.
std::vector<DrawnWork> drawn_plan(const FillPlan& plan, const std::vector<const FillJobInfo*>& jobs, int stage,
                                  const StageTimeline& timeline);

}  // namespace pipefill
