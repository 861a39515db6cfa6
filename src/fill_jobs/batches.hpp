// The batch sizes of a job that works on a list of sequences, and the shard of the list that is its own.
#pragma once

#include <cstdint>
#include <vector>

#include "fill_jobs/piece.hpp"

namespace pipefill {

struct ShardedBatches {
  std::vector<std::int64_t> sizes;  ///< those worth offering: none larger than the whole list
  Range shard;                      ///< of the list
};

/// Shards meet where batches of all sizes meet, so that a sequence has the same neighbours in its batch, and its
/// results the same bits, as in the whole job. DeckError for sizes whose common multiple is beyond all measure.
ShardedBatches sharded_batches(std::vector<std::int64_t> sizes, std::int64_t all, std::int64_t shard,
                               std::int64_t shards);

}  // namespace pipefill
