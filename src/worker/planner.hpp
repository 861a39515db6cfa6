// Asks a job's kind what its chunks cost, in a process of its own: a kind may be a user's library, which may crash,
// hang or take all memory, and neither a rank nor a worker may.
#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "fill_jobs/kind.hpp"

namespace pipefill {

/// Writes plan.json of the job in `directory` without starting it. Throws as JobRun::load.
void plan_job(const std::string& directory, FindKind find_kind = pipefill::find_kind);

/// Runs `command` + `directory` (which calls plan_job) for at most `timeout`. Returns "" or why there is no plan.
std::string plan_in_process(const std::vector<std::string>& command, const std::string& directory,
                            Nanoseconds timeout = std::chrono::minutes(2));

/// Writes into a job's state.json that it failed for good, and why.
void fail_job(const std::string& directory, const std::string& reason);

}  // namespace pipefill
