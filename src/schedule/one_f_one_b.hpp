// 1F1B with a flush per step (PipeDream-flush): after P-r-1 warm-up forwards, stage r alternates one forward and one
// backward, so it holds at most min(M, P-r) microbatches.
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
// arXiv 2104.04473, section 2.2.1 and figure 4 (top).
#pragma once

#include "schedule/schedule.hpp"

namespace pipefill {

/// Compute only, one chunk per stage. Any stages >= 1 and microbatches >= 1 (also fewer microbatches than stages), else
/// ScheduleError.
Schedule one_f_one_b(int stages, int microbatches);

}  // namespace pipefill
