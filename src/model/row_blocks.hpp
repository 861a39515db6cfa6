// Every tensor is divided into fixed blocks of whole rows: the unit of the global norm (sums in double, added in table
// order, so that the norm is the same for every layout) and of the optimizer's shards over replicas (ZeRO-1:
// Rajbhandari et al. 2020).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/id.hpp"
#include "model/parameters.hpp"

namespace pipefill {

struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const RowRange&) const = default;
};

/// Rows of one block: about 16 Ki elements, at least one row.
std::int64_t block_rows(const TensorSpec& tensor);
std::int64_t block_count(const TensorSpec& tensor);

/// The rows of `tensor` that this replica owns: whole blocks, contiguous, together every row exactly once. Small
/// tensors spread over the replicas by a hash of their name; the same on every stage that holds the tensor.
RowRange owned_rows(const TensorSpec& tensor, ReplicaId replica, int replicas);

/// The blocks of the whole table that the rank (chunks, replica) counts in the global norm, as indices into the list of
/// all blocks in table order, ascending: its own rows' blocks of the tensors whose `chunk` it holds. Over all ranks
/// every block appears exactly once, the tied embedding's on the first chunk's stage only.
std::vector<std::int64_t> norm_blocks(const ParameterTable& table, std::span<const ModelChunkId> chunks,
                                      ReplicaId replica, int replicas);
std::int64_t total_blocks(const ParameterTable& table);

/// Square root of the sum of all blocks' squares: blocks added in order within a tensor, tensors in table order.
double global_norm(const ParameterTable& table, std::span<const double> block_square_sums /* (total_blocks) */);

/// Factor for all gradients: 1, or clip / norm where the norm is over `clip` > 0 (0: no clipping).
double clip_scale(double norm, double clip);

}  // namespace pipefill
