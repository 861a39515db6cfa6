// The token data of a fill job, from its parameters: the same formats as the main job's.
#pragma once

#include <cstdint>
#include <string>

#include "data/token_data.hpp"
#include "fill_jobs/job_parameters.hpp"

namespace pipefill {

/// Asks for `source` (bytes, llmc, nanogpt, megatron, synthetic), its files under the key `files_key`, and `data_seed`.
/// Files without a source are bytes; no files are the synthetic source. `vocab` 0: the format's own.
DataDescription data_description(JobParameters& parameters, const std::string& files_key, std::uint64_t seed);

/// Symbols or tokens that the data has by itself; needs no file.
int own_vocab(const DataDescription& description);

}  // namespace pipefill
