#include "plan_comparison.hpp"

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "engine/measured_costs.hpp"
#include "schedule/timeline.hpp"

namespace pipefill {
void compare_times(const RunPlan& plan, Trainer& trainer, Nanoseconds hop, RunReporter* reporter, const Log& log) {
  RankServices services = trainer.services();
  const CostModel costs = gather_measured_costs(plan.training, trainer.profiler(), hop, services);
  const Profiler& profiler = trainer.profiler();
  if (reporter == nullptr || profiler.step_time().count() == 0) return;
  const Timeline priced = price(plan.training, costs);
  const double measured_bubbles =
      to_seconds(trainer.bubbles()) / (to_seconds(profiler.step_time()) * plan.layout.ranks());
  log->info("median step {} (priced from the measured costs: {}), bubble fraction {:.1f}% (priced: {:.1f}%)",
            format_duration(profiler.step_time()), format_duration(priced.makespan), 100 * measured_bubbles,
            100 * priced.bubble_fraction);
  reporter->append_metrics({{"schema", 1},
                            {"attempt", reporter->status.attempt},
                            {"measured_step_time_ns", profiler.step_time().count()},
                            {"priced_step_time_ns", priced.makespan.count()},
                            {"measured_bubble_fraction", measured_bubbles},
                            {"priced_bubble_fraction", priced.bubble_fraction}});
}

void compare_memory(const RankGroup& ranks, const StageMemory& mine, RunReporter* reporter, const Log& log) {
  const std::vector<std::string> told =
      ranks.gather(fmt::format("{} {} {}", mine.stage, mine.planned.count, mine.peak.count));
  if (reporter == nullptr) return;
  std::vector<StageMemory> all;
  for (const std::string& text : told) {
    StageMemory& memory = all.emplace_back();
    std::istringstream(text) >> memory.stage >> memory.planned.count >> memory.peak.count;
  }
  for (const std::string& line : memory_differences(all)) log->warn("{}", line);
  nlohmann::json planned = nlohmann::json::array(), peak = nlohmann::json::array();
  for (const auto& [stage, memory] : furthest_of_each_stage(all)) {
    planned.push_back(memory.planned.count);
    peak.push_back(memory.peak.count);
  }
  reporter->append_metrics({{"schema", 1},
                            {"attempt", reporter->status.attempt},
                            {"planned_memory_bytes", std::move(planned)},
                            {"peak_memory_bytes", std::move(peak)}});
}

}  // namespace pipefill
