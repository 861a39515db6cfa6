// Planned memory of stages beside the measured one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace pipefill {

/// One rank's part of a stage's memory, as planned and at its measured peak.
struct StageMemory {
  int stage = 0;
  Bytes planned, peak;
};

/// By stage: the replica whose peak is furthest from its plan.
std::map<int, StageMemory> furthest_of_each_stage(const std::vector<StageMemory>& ranks);

/// A line for every stage whose peak differs from its plan by more than 5 % of it; of replicas the one furthest off.
std::vector<std::string> memory_differences(const std::vector<StageMemory>& ranks);

}  // namespace pipefill
