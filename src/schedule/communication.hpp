// The pass that turns a compute-only schedule into one that ranks can run: sends, receives posted early, reductions
// over the replicas and the optimizer step.
#pragma once

#include "schedule/schedule.hpp"

namespace pipefill {

enum class Replicas { one, several };

/// Adds to a compute-only schedule:
///  - Send* directly after the instruction that makes the message, none between chunks of one stage;
///  - Recv* where they are safe even if sends were synchronous, and at the latest before the compute instruction that
///    precedes the consumer, so that a message arrives while the stage still computes;
///  - with several replicas, ReduceGradients of a chunk after its last backward;
///  - OptimizerStep at the end of every stage that trains (none in a forward-only schedule).
/// Throws ScheduleError when `compute` is not valid (validate) or has more than compute instructions.
Schedule with_communication(const Schedule& compute, Replicas replicas);

}  // namespace pipefill
