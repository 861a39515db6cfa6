// At the end of a run: what was measured beside what the plan said. All ranks call these together; rank 0 tells.
#pragma once

#include "base/log.hpp"
#include "checkpoint/rank_group.hpp"
#include "config/run_plan.hpp"
#include "memory_differences.hpp"

namespace pipefill {

/// Median step and bubbles against price() of the measured costs. `hop`: of a message between neighbours. `reporter` is
/// null on all ranks but the first.
void compare_times(const RunPlan& plan, Trainer& trainer, Nanoseconds hop, RunReporter* reporter, const Log& log);

/// Logs memory_differences(), and appends planned and peak of each stage to metrics.jsonl.
void compare_memory(const RankGroup& ranks, const StageMemory& mine, RunReporter* reporter, const Log& log);

}  // namespace pipefill
