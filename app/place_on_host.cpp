#include "place_on_host.hpp"

#include <vector>

#include "device/cpu/cpu_device.hpp"

namespace pipefill {

WaitMethod wait_method(WaitChoice choice, const CoreShare& cores) {
  switch (choice) {
    case WaitChoice::spin:
      return WaitMethod::spin;
    case WaitChoice::yield:
      return WaitMethod::yield;
    case WaitChoice::sleep:
      return WaitMethod::sleep;
    case WaitChoice::automatic:
      break;
  }
  return cores.ranks_per_core > 1 ? WaitMethod::yield : WaitMethod::spin;
}

CoreShare claim_cores(const Cluster& cluster, bool bind) {
  const std::vector<int> mine = allowed_cores();
  std::vector<std::vector<int>> allowed;
  for (const RankId rank : cluster.local_ranks()) {
    const bool same = cluster.ranks()[static_cast<std::size_t>(rank.value)].core_mask == cluster.mine().core_mask;
    allowed.push_back(same ? mine : std::vector<int>{});
  }
  const CoreShare share = share_of_cores(allowed, cluster.mine().local_rank);
  if (bind) bind_to(share);
  return share;
}

Bytes memory_limit(const RunConfig& config, const Cluster& cluster) {
  if (config.device.memory.count > 0) return config.device.memory;
  return {host_memory().count / cluster.mine().local_size};
}

}  // namespace pipefill
