// The profilers' durations of all ranks as one CostModel, so that what was measured can be priced and compared with
// what was measured.
#pragma once

#include "engine/profiler.hpp"
#include "engine/rank_services.hpp"
#include "schedule/cost_model.hpp"
#include "schedule/timeline.hpp"

namespace pipefill {

/// Collective over all ranks; medians of replica 0's stages. `hop` is the transfer time of one message.
CostModel gather_measured_costs(const Schedule& schedule, const Profiler& profiler, Nanoseconds hop,
                                RankServices& services);

}  // namespace pipefill
