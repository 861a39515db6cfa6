#include "memory_differences.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "base/text.hpp"

namespace pipefill {
namespace {

constexpr double kWorthTelling = 0.05;

/// Of the peak from the plan, as a part of the plan.
double distance(const StageMemory& memory) {
  if (memory.planned.count == 0) return memory.peak.count == 0 ? 0 : 1;
  return static_cast<double>(std::abs(memory.peak.count - memory.planned.count)) /
         static_cast<double>(memory.planned.count);
}

}  // namespace

std::map<int, StageMemory> furthest_of_each_stage(const std::vector<StageMemory>& ranks) {
  std::map<int, StageMemory> furthest;
  for (const StageMemory& memory : ranks) {
    const auto [found, is_new] = furthest.try_emplace(memory.stage, memory);
    if (!is_new && distance(memory) > distance(found->second)) found->second = memory;
  }
  return furthest;
}

std::vector<std::string> memory_differences(const std::vector<StageMemory>& ranks) {
  std::vector<std::string> lines;
  for (const auto& [stage, memory] : furthest_of_each_stage(ranks))
    if (distance(memory) > kWorthTelling)
      lines.push_back(fmt::format("stage {}: {} of memory were planned, the peak was {}", stage,
                                  format_bytes(memory.planned), format_bytes(memory.peak)));
  return lines;
}

}  // namespace pipefill
