// A divided job: fill/<job>/part-0/, part-1/, ... are directories of jobs like any other, each for its shard. The whole
// has state.json alone, which says so (shard: kDivided), until the parts are finished and their outputs joined in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/job_directory.hpp"

namespace pipefill {

std::string part_directory(const std::string& whole, std::int64_t shard);
/// The directory of the job that this is a part's directory of.
std::string whole_of(const std::string& part);

/// Makes the parts' directories, each pinned to the configuration, then says in the whole's state that it is divided.
/// Killed before that, the job is still a whole one; called again, it goes on. FileError.
void divide_job(const JobDirectory& whole, std::int64_t shards, const std::string& configuration);

/// States of the parts of a divided job.
std::vector<JobState> part_states(const JobDirectory& whole);
/// The same; DeckError unless all of them are finished.
std::vector<JobState> finished_parts(const JobDirectory& whole);
/// The outputs are joined: writes state.json of the whole, then removes the parts.
void finish_divided(const JobDirectory& whole, const std::vector<JobState>& parts);

}  // namespace pipefill
