#include "worker/job_plan.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

constexpr std::int64_t kMaxPlan = std::int64_t{64} << 20;

}  // namespace

void write_job_plan(const std::string& path, const std::vector<JobPlanConfiguration>& plan) {
  nlohmann::ordered_json configurations = nlohmann::ordered_json::array();
  for (const JobPlanConfiguration& c : plan) {
    nlohmann::ordered_json runs = nlohmann::ordered_json::array();
    for (const JobPlanRun& run : c.runs)
      runs.push_back({{"count", run.count},
                      {"cost_class", run.cost_class},
                      {"flops", run.flops},
                      {"bytes", run.bytes},
                      {"memory_bytes", run.memory.count},
                      {"samples", run.samples}});
    configurations.push_back(
        {{"name", c.name}, {"state_bytes", c.state.count}, {"samples", c.samples}, {"runs", std::move(runs)}});
  }
  const nlohmann::ordered_json json{{"format", 1}, {"configurations", std::move(configurations)}};
  replace_file(path, json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::vector<JobPlanConfiguration> read_job_plan(const std::string& path) {
  try {
    const nlohmann::json json = nlohmann::json::parse(read_file(path, kMaxPlan));
    std::vector<JobPlanConfiguration> plan;
    for (const nlohmann::json& c : json.at("configurations")) {
      JobPlanConfiguration& configuration = plan.emplace_back();
      configuration.name = c.at("name");
      configuration.state = Bytes{c.at("state_bytes").get<std::int64_t>()};
      configuration.samples = c.at("samples");
      for (const nlohmann::json& r : c.at("runs"))
        configuration.runs.push_back({r.at("count"), r.at("cost_class"), r.at("flops"), r.at("bytes"),
                                      Bytes{r.at("memory_bytes").get<std::int64_t>()}, r.at("samples")});
    }
    return plan;
  } catch (const nlohmann::json::exception& e) {
    throw FileError(ExitCode::damaged_data, path, fmt::format("is damaged: {}", e.what()));
  }
}

}  // namespace pipefill
