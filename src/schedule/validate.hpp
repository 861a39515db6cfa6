// Proves that a schedule is right before anything runs: every microbatch exactly once, legal order, matching messages,
// and that all programs together run to the end.
#pragma once

#include <string>
#include <vector>

#include "schedule/dependencies.hpp"
#include "schedule/schedule.hpp"

namespace pipefill {

/// One thing wrong; `place.index` is -1 when it is about a whole stage, `place.stage` -1 when about the whole schedule.
struct Violation {
  Place place;
  std::string text;
};

/// Everything that is wrong, empty for a valid schedule. Compute-only, lowered and forward-only schedules alike.
/// Whether all programs together end is asked last, and only when nothing else is wrong.
std::vector<Violation> find_violations(const Schedule& schedule);

/// Throws one ScheduleError that lists every violation with stage, position and text of the instruction.
void validate(const Schedule& schedule);

}  // namespace pipefill
