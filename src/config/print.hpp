// The table of keys as text: the resolved deck of a run, and the reference page.
#pragma once

#include <string>

#include "config/run_config.hpp"

namespace pipefill {

/// Every key with its value, as YAML; load_deck_text gives the same RunConfig back, every float to its last bit.
std::string print_deck(const RunConfig& config);

/// docs/deck.md: every section and key with type, range, default and help.
std::string deck_reference();

}  // namespace pipefill
