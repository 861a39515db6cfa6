#include "worker/job_plan.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

constexpr int kFormat = 2;
constexpr std::int64_t kMaxPlan = std::int64_t{64} << 20;

}  // namespace

void write_job_plan(const std::string& path, const JobPlan& plan) {
  nlohmann::ordered_json configurations = nlohmann::ordered_json::array();
  for (const JobPlanConfiguration& c : plan.configurations) {
    nlohmann::ordered_json runs = nlohmann::ordered_json::array();
    for (const JobPlanRun& run : c.runs)
      runs.push_back({run.count, run.cost_class, run.flops, run.bytes, run.memory.count, run.samples});
    configurations.push_back(
        {{"name", c.name}, {"state_bytes", c.state.count}, {"samples", c.samples}, {"runs", std::move(runs)}});
  }
  const nlohmann::ordered_json json{{"format", kFormat},
                                    {"divisible", plan.divisible == Divisible::yes},
                                    {"run", {"count", "cost_class", "flops", "bytes", "memory_bytes", "samples"}},
                                    {"configurations", std::move(configurations)}};
  replace_file(path, json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

JobPlan read_job_plan(const std::string& path) {
  try {
    const nlohmann::json json = nlohmann::json::parse(read_file(path, kMaxPlan));
    if (json.at("format").get<int>() != kFormat)
      throw FileError(ExitCode::damaged_data, path,
                      fmt::format("has format {}, this program reads {}; remove it, and it is made anew",
                                  json.at("format").dump(), kFormat));
    JobPlan plan;
    plan.divisible = json.at("divisible").get<bool>() ? Divisible::yes : Divisible::no;
    for (const nlohmann::json& c : json.at("configurations")) {
      JobPlanConfiguration& configuration = plan.configurations.emplace_back();
      configuration.name = c.at("name");
      configuration.state = Bytes{c.at("state_bytes").get<std::int64_t>()};
      configuration.samples = c.at("samples");
      for (const nlohmann::json& r : c.at("runs"))
        configuration.runs.push_back({r.at(0), r.at(1), r.at(2), r.at(3), Bytes{r.at(4).get<std::int64_t>()}, r.at(5)});
    }
    return plan;
  } catch (const nlohmann::json::exception& e) {
    throw FileError(ExitCode::damaged_data, path, fmt::format("is damaged: {}", e.what()));
  }
}

std::vector<FillConfiguration> configurations_of(const JobPlan& plan, const MachineRate& rate) {
  std::vector<FillConfiguration> configurations;
  for (const JobPlanConfiguration& planned : plan.configurations) {
    FillConfiguration& configuration = configurations.emplace_back();
    configuration.name = planned.name;
    configuration.resident = planned.state;
    for (const JobPlanRun& run : planned.runs)
      configuration.append({run.count, run.cost_class, run.memory, run.samples}, run.flops, run.bytes, rate);
  }
  return configurations;
}

}  // namespace pipefill
