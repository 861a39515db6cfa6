// The fill figures of a summary as text for people and as JSON for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "trace/fill_summary.hpp"

namespace pipefill {

std::string fill_text(const FillSummary& fill);
/// NaN and infinity become null when it is written.
nlohmann::ordered_json fill_json(const FillSummary& fill);

}  // namespace pipefill
