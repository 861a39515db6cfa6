// `pipefill fill run`: one fill job by itself, in the calling process's own worker, with the machine for itself.
#pragma once

#include <string>

#include "base/error.hpp"

namespace pipefill {

/// Runs the job of `file` to its end in DIRECTORY/fill/<name>/, going on where an earlier run stopped. `threads`
/// holds unless its state pins another number. Prints progress and its exclusive rate. TERM or INT stops it between
/// chunks (75).
ExitCode run_alone(const std::string& file, const std::string& directory, int threads);

}  // namespace pipefill
