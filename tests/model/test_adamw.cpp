// The optimizer: the formula, decay on matrices only, the norm, tied weights once, ZeRO-1 shards.
#include "model/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "pipeline.hpp"

namespace pipefill {
namespace {

using testing_support::Pipeline;
using testing_support::PipelineSetup;

TEST(Adamw, FollowsTheFormulaWithDecayOnMatricesOnly) {
  PipelineSetup setup;
  setup.adamw.weight_decay = 0.3;
  Pipeline pipeline(setup);
  std::map<std::string, std::vector<double>> w, m, v;
  for (const auto& [name, x] : pipeline.values())
    w[name].assign(x.begin(), x.end()), m[name].resize(x.size()), v[name].resize(x.size());
  const double rate = 1e-2, clip = 0.2;
  for (int step = 1; step <= 3; ++step) {
    pipeline.run_gradients(step);
    const auto gradients = pipeline.gradients();
    double squares = 0;
    for (const auto& [name, g] : gradients)
      for (float x : g) squares += static_cast<double>(x) * x;
    const double norm = std::sqrt(squares), scale = norm > clip ? clip / norm : 1;
    EXPECT_NEAR(pipeline.update(step, rate, clip), norm, 1e-12 * norm);
    for (const auto& [name, g] : gradients) {
      const bool matrix = pipeline.stage(0).find(name)->spec.shape.size() == 2;
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double x = scale * g[i];
        m[name][i] = 0.9 * m[name][i] + 0.1 * x;
        v[name][i] = 0.95 * v[name][i] + 0.05 * x * x;
        const double m_hat = m[name][i] / (1 - std::pow(0.9, step)), v_hat = v[name][i] / (1 - std::pow(0.95, step));
        w[name][i] -= rate * (m_hat / (std::sqrt(v_hat) + 1e-8) + (matrix ? 0.3 * w[name][i] : 0));
      }
    }
  }
  for (const auto& [name, x] : pipeline.values())
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], w[name][i], 3e-6) << name << "[" << i << "]";
}

TEST(Adamw, ATiedEmbeddingIsOneTensorWithOnePairOfMoments) {  // BUGS A3
  PipelineSetup setup;
  Pipeline pipeline(setup);
  const std::span<const StageTensor> tensors = pipeline.stage(0).tensors();
  int embeddings = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].spec.elements() != 37 * 12) continue;
    ++embeddings;
    EXPECT_EQ(pipeline.optimizer(0).moments()[i].first.size(), 37U * 12U);
  }
  EXPECT_EQ(embeddings, 1);
  EXPECT_EQ(pipeline.optimizer(0).moments().size(), tensors.size());
}

TEST(Adamw, TiedCopiesOnTwoStagesStayEqual) {  // BUGS A2 at R = 1
  PipelineSetup setup;
  setup.layers = {2, 2};
  setup.stages = 2;
  setup.microbatches = 3;
  Pipeline pipeline(setup);
  for (int step = 1; step <= 3; ++step) {
    pipeline.run_gradients(step);
    pipeline.update(step, 1e-2, 0.5);
    const StageTensor* first = pipeline.stage(0).find("token_embedding.weight");
    const StageTensor* last = pipeline.stage(1).find("token_embedding.weight");
    ASSERT_TRUE(std::equal(first->values.begin(), first->values.end(), last->values.begin())) << step;
  }
}

TEST(Adamw, ShardsTogetherMakeTheWholeUpdate) {
  PipelineSetup setup;
  setup.shape.channels = 96;  // several blocks in the larger tensors
  setup.shape.heads = 4;
  setup.shape.vocab = 701;
  Pipeline whole(setup), sharded(setup);
  for (int replicas : {2, 3}) {
    std::vector<std::unique_ptr<Adamw>> shards;
    for (int r = 0; r < replicas; ++r) {
      AdamwSettings settings = setup.adamw;
      settings.shard = OptimizerShard::yes;
      settings.replica = {r};
      settings.replicas = replicas;
      shards.push_back(std::make_unique<Adamw>(settings, sharded.stage(0), sharded.device(0)));
    }
    AdamwSettings settings = setup.adamw;
    Adamw plain(settings, whole.stage(0), whole.device(0));
    for (int step = 1; step <= 2; ++step) {
      whole.run_gradients(step);
      sharded.run_gradients(step);
      std::vector<double> sums(static_cast<std::size_t>(total_blocks(sharded.stage(0).table())), -1.0);
      for (int r = 0; r < replicas; ++r) {
        const auto blocks = norm_blocks(sharded.stage(0).table(), sharded.stage(0).setup().chunks, {r}, replicas);
        const auto mine = shards[static_cast<std::size_t>(r)]->block_square_sums();
        ASSERT_EQ(mine.size(), blocks.size());
        for (std::size_t i = 0; i < mine.size(); ++i) sums[static_cast<std::size_t>(blocks[i])] = mine[i];
      }
      EXPECT_EQ(sums, plain.block_square_sums());
      plain.update(step, 1e-2, 0.7);
      for (auto& shard : shards) shard->update(step, 1e-2, 0.7);
      EXPECT_TRUE(whole.values() == sharded.values()) << "R=" << replicas << " step " << step;
    }
  }
}

}  // namespace
}  // namespace pipefill
