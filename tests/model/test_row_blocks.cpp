// Row blocks: every row owned once, every block counted once, the norm independent of who counts.
#include "model/row_blocks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace pipefill {
namespace {

ParameterTable small_table(bool tied, const LayerCut& cut) {
  return parameter_table({.layers = 3, .channels = 96, .heads = 3, .context = 16, .vocab = 701, .tied = tied}, cut);
}

TEST(RowBlocks, ReplicasOwnEveryRowExactlyOnceInWholeBlocks) {
  const LayerCut cut{{{0, 3}}};
  for (const TensorSpec& tensor : small_table(true, cut)) {
    for (int replicas : {1, 2, 3, 4, 7, 64}) {
      std::vector<int> owners(static_cast<std::size_t>(tensor.rows()), 0);
      for (int r = 0; r < replicas; ++r) {
        const RowRange rows = owned_rows(tensor, {r}, replicas);
        ASSERT_GE(rows.count, 0);
        EXPECT_EQ(rows.count == 0 ? 0 : rows.first % block_rows(tensor), 0);
        for (std::int64_t i = rows.first; i < rows.first + rows.count; ++i) ++owners[static_cast<std::size_t>(i)];
      }
      EXPECT_EQ(owners, std::vector<int>(owners.size(), 1)) << tensor.name << " R=" << replicas;
    }
  }
}

TEST(RowBlocks, SmallTensorsSpreadOverTheReplicas) {
  const ParameterTable table = small_table(true, LayerCut{{{0, 3}}});
  std::vector<std::int64_t> elements(4, 0);
  int first_owner_of_small = 0, small = 0;
  for (const TensorSpec& tensor : table) {
    for (int r = 0; r < 4; ++r)
      elements[static_cast<std::size_t>(r)] += owned_rows(tensor, {r}, 4).count * tensor.columns();
    if (block_count(tensor) == 1) ++small, first_owner_of_small += owned_rows(tensor, {0}, 4).count > 0 ? 1 : 0;
  }
  EXPECT_GT(small, 8);
  EXPECT_LT(first_owner_of_small, small / 2);
  for (std::int64_t n : elements) EXPECT_GT(n, parameter_count(table) / 8);
}

TEST(RowBlocks, EveryBlockIsCountedByExactlyOneRank) {
  for (bool tied : {true, false}) {
    const LayerCut cut{{{0, 1}, {1, 0}, {1, 2}}};
    const ParameterTable table = small_table(tied, cut);
    for (int replicas : {1, 2, 3}) {
      std::multiset<std::int64_t> counted;
      for (int c = 0; c < 3; ++c)
        for (int r = 0; r < replicas; ++r) {
          const std::vector<ModelChunkId> chunks{{c}};
          for (std::int64_t b : norm_blocks(table, chunks, {r}, replicas)) counted.insert(b);
        }
      ASSERT_EQ(static_cast<std::int64_t>(counted.size()), total_blocks(table));
      std::int64_t expected = 0;
      for (std::int64_t b : counted) EXPECT_EQ(b, expected++);
    }
  }
}

TEST(RowBlocks, NormAddsAllBlocksAndClipScalesDownOnly) {
  const ParameterTable table = small_table(false, LayerCut{{{0, 3}}});
  std::vector<double> sums(static_cast<std::size_t>(total_blocks(table)), 0.25);
  EXPECT_DOUBLE_EQ(global_norm(table, sums), std::sqrt(0.25 * static_cast<double>(sums.size())));
  EXPECT_EQ(clip_scale(4.0, 1.0), 0.25);
  EXPECT_EQ(clip_scale(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_scale(4.0, 0.0), 1.0);
}

}  // namespace
}  // namespace pipefill
