// Which cores a rank computes on. pipefill binds itself: launchers differ, and the default of some (one core a rank)
// would leave an OpenMP team on one core. A core is named by its lowest allowed processing unit (hardware thread).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace pipefill {

/// The cores this process may run on now (its affinity mask and cgroup), ascending.
std::vector<int> allowed_cores();

struct CoreShare {
  std::vector<int> cores;  ///< never empty
  int ranks_per_core = 1;  ///< > 1: more ranks than cores, these cores are shared; bubbles are not true ones then
};

/// The share of local rank `local_rank`, where allowed[i] are the cores local rank i may run on. Ranks with the same
/// mask (a launcher that does not bind) divide it: the i-th of n takes the i-th contiguous share, the first ones one
/// core more where it does not divide; other ranks' lists count only as equal to this one's or not. A launcher that did
/// bind ranks to different masks has decided: each keeps its own.
CoreShare share_of_cores(std::span<const std::vector<int>> allowed, int local_rank);

/// Binds this process, all threads it starts later included, to these cores (all their allowed hardware threads).
/// Call before the first OpenMP region. Throws DeviceError when the system refuses.
void bind_to(const CoreShare& share);

/// "0-3,8" for log tables.
std::string format_cores(std::span<const int> cores);

}  // namespace pipefill
