// The worker's loop: serve a command, use a grant, wait. A grant is used chunk after chunk while the rank does not say
// stop and the next chunk fits in time and memory. The same loop runs in a process of its own and, for
// fill.isolation: in-process, in a thread of the rank.
#pragma once

#include <functional>

#include "fill_jobs/kind.hpp"
#include "worker/channel.hpp"

namespace pipefill {

enum class WorkerIs { process, thread };

struct WorkerLoopOptions {
  WorkerIs is = WorkerIs::process;  ///< a thread gets no limits, no output files and no commands to run
  int threads = 1;                  ///< for jobs not pinned to another number
  FindKind find_kind = pipefill::find_kind;
  std::function<bool()> orphaned = [] { return false; };  ///< asked every second; true ends the loop
};

/// Returns after `quit`. Throws nothing: what goes wrong with a job is in its report.
void run_worker_loop(WorkerChannel& channel, const WorkerLoopOptions& options);

}  // namespace pipefill
