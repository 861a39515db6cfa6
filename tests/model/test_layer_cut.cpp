// The layer cut against brute force, and the model's cost against numbers worked out by hand.
#include "model/layer_cut.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.hpp"
#include "device/cpu/cpu_device.hpp"
#include "model/adamw.hpp"
#include "model/cost.hpp"

namespace pipefill {
namespace {

double slowest(const ModelShape& shape, const LayerCut& cut) {
  double worst = 0;
  for (int c = 0; c < cut.size(); ++c) worst = std::max(worst, training_flops_per_token(shape, cut, {c}));
  return worst;
}

double best_of_all(const ModelShape& shape, int chunks) {
  double best = 1e300;
  std::vector<int> counts(static_cast<std::size_t>(chunks), 0);
  const std::function<void(std::size_t, int)> place = [&](std::size_t at, int left) {
    if (at + 1 == counts.size()) {
      counts[at] = left;
      best = std::min(best, slowest(shape, cut_layers_explicitly(shape, chunks, counts)));
      return;
    }
    for (int n = 0; n <= left; ++n) counts[at] = n, place(at + 1, left - n);
  };
  place(0, shape.layers);
  return best;
}

TEST(LayerCut, ByCostIsAsGoodAsTheBestOfAllCuts) {
  for (int vocab : {16, 256, 3000, 50257}) {
    for (int layers = 1; layers <= 9; ++layers) {
      for (int chunks = 1; chunks <= std::min(5, layers + 2); ++chunks) {
        const ModelShape shape{.layers = layers, .channels = 64, .heads = 4, .context = 32, .vocab = vocab};
        const LayerCut cut = cut_layers_by_cost(shape, chunks);
        EXPECT_EQ(slowest(shape, cut), best_of_all(shape, chunks))
            << "L=" << layers << " P=" << chunks << " V=" << vocab;
        int next = 0;
        for (const LayerRange& range : cut.chunks) {
          EXPECT_EQ(range.first, next);
          next += range.count;
        }
        EXPECT_EQ(next, layers);
      }
    }
  }
}

TEST(LayerCut, AHeavyHeadStandsAlone) {
  const ModelShape shape{.layers = 6, .channels = 384, .heads = 6, .context = 256, .vocab = 50304};
  const LayerCut cut = cut_layers_by_cost(shape, 2);
  EXPECT_EQ(cut[ModelChunkId{0}], (LayerRange{0, 6}));
  EXPECT_EQ(cut[ModelChunkId{1}], (LayerRange{6, 0}));
}

TEST(LayerCut, ExplicitCutsAreTakenAsTheyAreIncludingEmptyOnes) {
  const ModelShape shape{.layers = 4, .channels = 8, .heads = 2, .context = 4, .vocab = 16};
  const std::vector<int> counts{0, 3, 0, 1};
  const LayerCut cut = cut_layers_explicitly(shape, 4, counts);
  EXPECT_EQ(cut.chunks, (std::vector<LayerRange>{{0, 0}, {0, 3}, {3, 0}, {3, 1}}));
}

void expect_refused(const std::function<void()>& call, const std::vector<std::string>& numbers) {
  try {
    call();
    FAIL() << "accepted";
  } catch (const DeckError& e) {
    for (const std::string& number : numbers)
      EXPECT_NE(std::string(e.what()).find(number), std::string::npos) << e.what();
  }
}

TEST(LayerCut, ImpossibleCutsAreRefusedWithTheirNumbers) {
  const ModelShape shape{.layers = 4, .channels = 8, .heads = 2, .context = 4, .vocab = 16};
  expect_refused([&] { cut_layers_by_cost(shape, 7); }, {"7 stages", "4 layers", "only 6"});
  EXPECT_NO_THROW(cut_layers_by_cost(shape, 6));
  expect_refused([&] { cut_layers_explicitly(shape, 2, std::vector<int>{1, 2}); }, {"[1, 2]", "3 layers", "is 4"});
  expect_refused([&] { cut_layers_explicitly(shape, 3, std::vector<int>{2, 2}); }, {"2 entries", "3 stages"});
  expect_refused([&] { cut_layers_explicitly(shape, 2, std::vector<int>{5, -1}); }, {"-1"});
}

TEST(Cost, FlopsPerTokenByHand) {  // BUGS A10
  const ModelShape shape{.layers = 2, .channels = 8, .heads = 2, .context = 4, .vocab = 16};
  // 6 * (12 * 2 * 64 + 16 * 8) + 12 * 2 * 4 * 8 = 6 * 1664 + 768
  EXPECT_DOUBLE_EQ(training_flops_per_token(shape), 10752.0);
  // PERF.md: L6 H6 C384 V50304 T256 is 186.7 MFLOP a token.
  EXPECT_NEAR(training_flops_per_token({.layers = 6, .channels = 384, .heads = 6, .context = 256, .vocab = 50304}),
              186.7e6, 0.05e6);
  const LayerCut cut = cut_layers_by_cost(shape, 2);
  const double sum = training_flops_per_token(shape, cut, {0}) + training_flops_per_token(shape, cut, {1});
  EXPECT_DOUBLE_EQ(sum, 10752.0 + 4 * 8);  // the look-up's additions, which the model's own FLOPs leave out
}

// BUGS A14: the estimate is what a stage allocates, end chunks included.
TEST(Cost, MemoryEstimateIsWhatTheStageAllocates) {
  for (ComputeType compute : {ComputeType::fp32, ComputeType::bf16}) {
    for (bool tied : {true, false}) {
      const ModelShape shape{
          .layers = 4, .channels = 32, .heads = 4, .context = 8, .vocab = 100, .tied = tied, .compute = compute};
      const LayerCut cut = cut_layers_explicitly(shape, 3, std::vector<int>{1, 2, 1});
      const std::vector<ChunkMemory> memories = chunk_memories(shape, cut, 3);
      for (int c = 0; c < 3; ++c) {
        StageSetup setup;
        setup.shape = shape;
        setup.cut = cut;
        setup.chunks = {{c}};
        setup.microbatch_size = 3;
        setup.slots = {2};
        setup.weight_slots = {1};
        CpuDevice device(1, Bytes{0});
        Stage stage(setup, device);
        Adamw optimizer({}, stage, device);
        const ChunkMemory& memory = memories[static_cast<std::size_t>(c)];
        EXPECT_EQ(device.memory().in_use, memory.total(2, 1)) << "chunk " << c;
        EXPECT_EQ(stage.activation_bytes_reserved(), memory.activations * 2 + memory.deferred_gradients);
        Bytes sharded{};
        for (int replica = 0; replica < 3; ++replica) {
          CpuDevice shared(1, Bytes{0});
          Stage same(setup, shared);
          Adamw part({.shard = OptimizerShard::yes, .replica = {replica}, .replicas = 3}, same, shared);
          sharded = std::max(sharded, shared.memory().in_use);
        }
        EXPECT_EQ(sharded, chunk_memories(shape, cut, 3, 3)[static_cast<std::size_t>(c)].total(2, 1));
        EXPECT_EQ(memory.logits, c == 2 ? Bytes{3 * 8 * 112 * 4} : Bytes{0});
      }
    }
  }
}

}  // namespace
}  // namespace pipefill
