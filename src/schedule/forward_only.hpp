// Evaluation: every stage runs all forwards and nothing else.
#pragma once

#include "schedule/schedule.hpp"

namespace pipefill {

/// Compute only, one chunk per stage. Any stages >= 1 and microbatches >= 1, else ScheduleError.
Schedule forward_only(int stages, int microbatches);

}  // namespace pipefill
