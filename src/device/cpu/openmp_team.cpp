// The restart that tells libgomp how to wait.
//
// Measured here (2 cores, 2 threads, per region; CPU time the team spins in a 14 ms wait after a region):
//   libgomp's default 5-6 ms spun; GOMP_SPINCOUNT 30000: 0.8 ms; 10000: 0.3 ms; 1000: 0.05 ms; 0: 0.04 ms.
// A sleeping team takes about 30 us to wake, a spinning one 1-2 us, so regions in close succession should still find it
// spinning: 1000 turns are some tens of microseconds.
#include "device/cpu/openmp_team.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"

namespace pipefill {

void ensure_sleeping_team(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);
  execv("/proc/self/exe", argv);
  throw DeviceError(
      fmt::format("cannot restart this program with GOMP_SPINCOUNT=1000 ({}), so that its OpenMP threads "
                  "would spin while a rank waits. Set OMP_WAIT_POLICY=passive in the environment.",
                  std::strerror(errno)));
}

}  // namespace pipefill
