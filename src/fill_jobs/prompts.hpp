// The prompts of a generate job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fill_jobs/job_parameters.hpp"

namespace pipefill {

struct Prompt {
  std::int64_t index = 0;            ///< among all prompts of the job
  std::vector<std::int32_t> tokens;  ///< at least one
};

/// Asks for `prompts`, `prompt_file` and `prompt_tokens` (exactly one of them). Throws DeckError for an empty prompt,
/// and for a token that is not below `vocab`. `what` counts them in messages.
std::vector<Prompt> read_prompts(JobParameters& parameters, int vocab);

}  // namespace pipefill
