// plan.json in a job's directory: what its kind says its chunks cost in each configuration, before anything was
// measured. Written by the worker, read by whoever plans. One row of numbers per run of equal chunks: a job of 10^6
// chunks that are all different takes some MB.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "fill/fill_job.hpp"

namespace pipefill {

/// `count` chunks in a row that cost the same.
struct JobPlanRun {
  std::int64_t count = 0;
  std::int32_t cost_class = 0;
  double flops = 0, bytes = 0;  ///< of each
  Bytes memory{0};              ///< of each, beside the state
  double samples = 0;           ///< of each
  friend bool operator==(const JobPlanRun&, const JobPlanRun&) = default;
};

struct JobPlanConfiguration {
  std::string name;
  Bytes state{0};
  double samples = 0;            ///< of the whole job
  std::vector<JobPlanRun> runs;  ///< their counts add up to the job's chunks
  friend bool operator==(const JobPlanConfiguration&, const JobPlanConfiguration&) = default;
};

enum class Divisible { no, yes };

struct JobPlan {
  Divisible divisible = Divisible::no;  ///< whether the kind can divide the job into parts
  std::vector<JobPlanConfiguration> configurations;
  friend bool operator==(const JobPlan&, const JobPlan&) = default;
};

void write_job_plan(const std::string& path, const JobPlan& plan);
/// FileError 66 when there is none yet, 65 when it is damaged.
JobPlan read_job_plan(const std::string& path);
/// Priced at a rate, for the planners. Error 65 for costs that no plan can be made with.
std::vector<FillConfiguration> configurations_of(const JobPlan& plan, const MachineRate& rate);

}  // namespace pipefill
