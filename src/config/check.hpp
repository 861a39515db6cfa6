// What is wrong with a RunConfig as a whole, as plain findings; load.cpp gives them their places in the deck.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.hpp"

namespace pipefill {

struct Finding {
  std::string key;  ///< the key to change
  std::string text;
};

/// Every member in its range.
std::vector<Finding> check_members(const RunConfig& config);
/// Members that contradict each other; the members themselves are in range.
std::vector<Finding> check_together(const RunConfig& config);
/// `config` against a number of processes.
std::vector<Finding> check_ranks(const RunConfig& config, int ranks);

}  // namespace pipefill
