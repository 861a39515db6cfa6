// How the OpenMP team of a rank waits for its next parallel region. libgomp's workers spin for several milliseconds
// after each region unless told otherwise, which would steal the core from whoever fills a bubble; and it reads the
// telling only from the environment, before main.
#pragma once

namespace pipefill {

/// Starts this program anew (execve of itself, same process id, same arguments) with libgomp set to spin only briefly
/// and then sleep, unless the user set OMP_WAIT_POLICY or GOMP_SPINCOUNT or this was done already. Call first thing in
/// main of a command that computes, before MPI_Init and before any thread. Returns when there is nothing to do; throws
/// DeviceError when the exec fails.
void ensure_sleeping_team(char** argv);

}  // namespace pipefill
