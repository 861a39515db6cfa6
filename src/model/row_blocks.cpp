// Row blocks: who owns them, who counts them, and the norm over all of them.
#include "model/row_blocks.hpp"

#include <algorithm>
#include <cmath>

#include "base/contract.hpp"

namespace pipefill {
namespace {

constexpr std::int64_t kBlockElements = 16384;

}  // namespace

std::int64_t block_rows(const TensorSpec& tensor) {
  return std::max<std::int64_t>(1, kBlockElements / tensor.columns());
}

std::int64_t block_count(const TensorSpec& tensor) {
  const std::int64_t rows = block_rows(tensor);
  return (tensor.rows() + rows - 1) / rows;
}

RowRange owned_rows(const TensorSpec& tensor, ReplicaId replica, int replicas) {
  PF_EXPECT(replica.value >= 0 && replica.value < replicas);
  // The blocks are shared out as evenly as they go; which replica takes the first share turns with the name, so that
  // tensors of one block do not all fall to replica 0.
  const auto turn = static_cast<int>(name_hash(tensor.name) % static_cast<std::uint64_t>(replicas));
  const std::int64_t share = (replica.value + turn) % replicas;
  const std::int64_t blocks = block_count(tensor), rows = block_rows(tensor);
  const std::int64_t first = std::min(tensor.rows(), blocks * share / replicas * rows);
  const std::int64_t end = std::min(tensor.rows(), blocks * (share + 1) / replicas * rows);
  return {first, end - first};
}

std::vector<std::int64_t> norm_blocks(const ParameterTable& table, std::span<const ModelChunkId> chunks,
                                      ReplicaId replica, int replicas) {
  std::vector<std::int64_t> list;
  std::int64_t start = 0;
  for (const TensorSpec& tensor : table) {
    if (std::find(chunks.begin(), chunks.end(), tensor.chunk) != chunks.end()) {
      const RowRange owned = owned_rows(tensor, replica, replicas);
      const std::int64_t rows = block_rows(tensor);
      for (std::int64_t row = owned.first; row < owned.first + owned.count; row += rows)
        list.push_back(start + row / rows);
    }
    start += block_count(tensor);
  }
  return list;
}

std::int64_t total_blocks(const ParameterTable& table) {
  std::int64_t count = 0;
  for (const TensorSpec& tensor : table) count += block_count(tensor);
  return count;
}

double global_norm(const ParameterTable& table, std::span<const double> block_square_sums) {
  PF_EXPECT(static_cast<std::int64_t>(block_square_sums.size()) == total_blocks(table));
  double sum = 0;
  std::size_t block = 0;
  for (const TensorSpec& tensor : table) {
    double tensor_sum = 0;
    for (std::int64_t b = 0; b < block_count(tensor); ++b) tensor_sum += block_square_sums[block++];
    sum += tensor_sum;
  }
  return std::sqrt(sum);
}

double clip_scale(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1.0; }

}  // namespace pipefill
