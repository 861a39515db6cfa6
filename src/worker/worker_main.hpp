// The worker process, from its first instruction to its last: what it does to itself so that it never harms its rank,
// then the loop.
#pragma once

#include "fill_jobs/kind.hpp"

namespace pipefill {

/// `pipefill fill-worker DESCRIPTOR PARENT THREADS OFFSET`, a hidden command: argv as main got it. Descriptor of the
/// channel, process id of the rank, threads for jobs, place of the rank's doorbell in the memory behind kDoorbellNumber
/// (-1: there is none). Returns the exit code. Never calls MPI.
int worker_main(int argc, char** argv, FindKind find_kind = pipefill::find_kind);

/// The calling thread (and what it starts) gives way to everybody: idle scheduling class, idle input/output class.
void become_idle_class();

}  // namespace pipefill
