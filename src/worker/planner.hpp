// Asks a job's kind what its chunks cost, or to join the parts of a divided job, in a process of its own: a kind may be
// a user's library, which may crash, hang or take all memory, and neither a rank nor a worker may.
#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"
#include "fill_jobs/kind.hpp"

namespace pipefill {

/// Writes plan.json of the job in `directory` without starting it. Throws as JobRun::load.
void plan_job(const std::string& directory, FindKind find_kind = pipefill::find_kind);

/// JobRun::merge.
void join_job(const std::string& directory, FindKind find_kind = pipefill::find_kind);

/// Runs `command` + `directory` (which calls plan_job or join_job) for at most `timeout`. Returns "" or what went wrong
/// while `doing` ("planning").
std::string run_on_job(const std::vector<std::string>& command, const std::string& directory, const std::string& doing,
                       Nanoseconds timeout = std::chrono::minutes(2));

/// Writes into a job's state.json that it failed for good, and why.
void fail_job(const std::string& directory, const std::string& reason);

}  // namespace pipefill
