// The pass that marks every place where a stage may wait with an explicit Bubble, so that a bubble slot, (stage,
// position in the program), means the same in every step, whatever things cost. A Bubble may last zero time.
#pragma once

#include "schedule/schedule.hpp"

namespace pipefill {

/// A Bubble directly before every compute instruction whose input comes from another stage, and before OptimizerStep:
/// `collective` when the stage reduces gradients over replicas, then `step_boundary` when there are other stages.
/// Bubbles already there are replaced.
Schedule with_bubbles(const Schedule& schedule);
Schedule without_bubbles(const Schedule& schedule);

}  // namespace pipefill
