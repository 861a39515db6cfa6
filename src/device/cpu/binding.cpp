// Core shares, and binding to them through hwloc.
#include "device/cpu/binding.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/contract.hpp"
#include "base/error.hpp"

namespace pipefill {
namespace {

struct FreeTopology {
  void operator()(hwloc_topology_t t) const { hwloc_topology_destroy(t); }
};
struct FreeBitmap {
  void operator()(hwloc_bitmap_t b) const { hwloc_bitmap_free(b); }
};
using Topology = std::unique_ptr<hwloc_topology, FreeTopology>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

void check_hwloc(int result, const char* what) {
  if (result != 0) {
    throw DeviceError(fmt::format("{} failed: {}. Set device.bind=false to leave binding to the launcher.", what,
                                  std::strerror(errno)));
  }
}

Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  check_hwloc(hwloc_topology_init(&raw), "hwloc_topology_init");
  Topology topology(raw);
  check_hwloc(hwloc_topology_load(raw), "hwloc_topology_load");
  return topology;
}

Bitmap process_mask(hwloc_topology_t topology) {
  Bitmap mask(hwloc_bitmap_alloc());
  check_hwloc(hwloc_get_cpubind(topology, mask.get(), HWLOC_CPUBIND_PROCESS), "hwloc_get_cpubind");
  hwloc_bitmap_and(mask.get(), mask.get(), hwloc_topology_get_allowed_cpuset(topology));
  return mask;
}

/// Calls visit(lowest allowed unit, all allowed units) for every core that has some.
template <class Visit>
void for_each_core(hwloc_topology_t topology, hwloc_const_bitmap_t mask, Visit visit) {
  const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  for (int i = 0; i < count; ++i) {
    Bitmap units(hwloc_bitmap_dup(hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, static_cast<unsigned>(i))->cpuset));
    hwloc_bitmap_and(units.get(), units.get(), mask);
    if (hwloc_bitmap_iszero(units.get()) == 0) visit(hwloc_bitmap_first(units.get()), units.get());
  }
}

}  // namespace

std::vector<int> allowed_cores() {
  const Topology topology = load_topology();
  const Bitmap mask = process_mask(topology.get());
  std::vector<int> cores;
  for_each_core(topology.get(), mask.get(), [&](int lowest, hwloc_const_bitmap_t) { cores.push_back(lowest); });
  if (cores.empty()) {  // hosts whose topology shows no cores: every unit counts as one
    for (int unit = hwloc_bitmap_first(mask.get()); unit >= 0; unit = hwloc_bitmap_next(mask.get(), unit))
      cores.push_back(unit);
  }
  std::sort(cores.begin(), cores.end());
  return cores;
}

CoreShare share_of_cores(std::span<const std::vector<int>> allowed, int local_rank) {
  PF_EXPECT(local_rank >= 0 && local_rank < static_cast<int>(allowed.size()));
  const std::vector<int>& mine = allowed[static_cast<std::size_t>(local_rank)];
  PF_EXPECT(!mine.empty());
  int index = 0, sharers = 0;  // my place among the ranks with my mask
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i] != mine) continue;
    if (static_cast<int>(i) < local_rank) ++index;
    ++sharers;
  }
  const int cores = static_cast<int>(mine.size());
  if (sharers > cores) return {{mine[static_cast<std::size_t>(index % cores)]}, (sharers + cores - 1) / cores};
  const int each = cores / sharers, more = cores % sharers;
  const int first = index * each + std::min(index, more);
  const int count = each + (index < more ? 1 : 0);
  return {{mine.begin() + first, mine.begin() + first + count}, 1};
}

void bind_to(const CoreShare& share) {
  const Topology topology = load_topology();
  Bitmap units(hwloc_bitmap_alloc());
  for (int core : share.cores) {
    hwloc_obj_t unit = hwloc_get_pu_obj_by_os_index(topology.get(), static_cast<unsigned>(core));
    if (unit == nullptr) throw DeviceError(fmt::format("core {} is not one of this host's", core));
    hwloc_obj_t whole = hwloc_get_ancestor_obj_by_type(topology.get(), HWLOC_OBJ_CORE, unit);
    hwloc_bitmap_or(units.get(), units.get(), whole != nullptr ? whole->cpuset : unit->cpuset);
  }
  hwloc_bitmap_and(units.get(), units.get(), hwloc_topology_get_allowed_cpuset(topology.get()));
  check_hwloc(hwloc_set_cpubind(topology.get(), units.get(), HWLOC_CPUBIND_PROCESS), "hwloc_set_cpubind");
}

std::string format_cores(std::span<const int> cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end - i == 1 ? fmt::format("{}", cores[i]) : fmt::format("{}-{}", cores[i], cores[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace pipefill
