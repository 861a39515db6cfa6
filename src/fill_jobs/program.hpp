// Starting somebody's program from a worker: what stands between fork and exec. The program gets a process group of its
// own (never a session), a fixed small environment, no descriptors but the first three, limits, no way to new
// privileges, and dies with the worker. It starts stopped.
#pragma once

#include <string>
#include <vector>

#include "base/units.hpp"

namespace pipefill {

struct ProgramStart {
  std::vector<std::string> argv;         ///< argv[0] is looked up in PATH unless it has a slash
  std::vector<std::string> environment;  ///< "NAME=value", added to the fixed ones
  std::string directory;                 ///< working directory
  Bytes memory{0};                       ///< RLIMIT_AS of each of its processes; 0: none
};

/// Process id, which is also its process group; not yet running: its first SIGCONT starts it. Throws FileError 66 when
/// there is no such program, 74 when it cannot be started. stdout and stderr are inherited.
int start_program(const ProgramStart& start);

/// The variable that tells whose worker a process belongs to, also after everybody above it has ended.
inline constexpr const char* kWorkerMark = "PIPEFILL_FILL_WORKER";

/// What a fill job's processes see of the environment: the caller's PATH, HOME, USER, LANG, TMPDIR and LD_LIBRARY_PATH.
/// Nothing of MPI, Slurm or LD_PRELOAD gets through. kWorkerMark does.
std::vector<std::string> fixed_environment();

}  // namespace pipefill
