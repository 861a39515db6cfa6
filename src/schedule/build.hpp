// From a schedule's name, as decks say it, to its builder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace pipefill {

/// Training schedules by name, for help texts and checks: "1f1b", "gpipe".
std::vector<std::string> schedule_names();

/// Compute only. ScheduleError for an unknown name (says the nearest valid one) and for stages or microbatches < 1.
Schedule build_schedule(const std::string& name, int stages, int microbatches);

/// Share of (stages x step time) that is bubble when all stages cost the same and messages take no time:
/// (P-1)/(M+P-1) for gpipe and 1f1b; none for schedules without a closed form.
std::optional<double> closed_form_bubble_fraction(const std::string& name, int stages, int microbatches);

}  // namespace pipefill
