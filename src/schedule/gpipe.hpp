// GPipe: every stage runs all forwards, then all backwards.
// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", arXiv 1811.06965,
// section 2.3 and figure 2c. Backwards run in ascending microbatch order (the paper draws them descending), so that
// gradients are summed in the same order as in every other schedule here.
#pragma once

#include "schedule/schedule.hpp"

namespace pipefill {

/// Compute only, one chunk per stage. Any stages >= 1 and microbatches >= 1, else ScheduleError.
Schedule gpipe(int stages, int microbatches);

}  // namespace pipefill
