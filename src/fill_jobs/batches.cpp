// Shards in units of the batch sizes' common multiple.
#include "fill_jobs/batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace pipefill {

ShardedBatches sharded_batches(std::vector<std::int64_t> sizes, std::int64_t all, std::int64_t shard,
                               std::int64_t shards) {
  std::erase_if(sizes, [&](std::int64_t size) { return size > all; });
  if (sizes.empty()) sizes = {std::max<std::int64_t>(all, 1)};
  std::int64_t grain = 1;
  for (const std::int64_t size : sizes) {
    grain = std::lcm(grain, size);
    if (grain > 1 << 20)
      throw DeckError(
          fmt::format("with.batch lists sizes whose common multiple is {} and more; use powers of two", grain));
  }
  const std::int64_t units = (all + grain - 1) / grain;
  const std::int64_t first = std::min(all, units * shard / shards * grain);
  return {std::move(sizes), {first, std::min(all, units * (shard + 1) / shards * grain) - first}};
}

}  // namespace pipefill
