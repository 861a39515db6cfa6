// The first promise: losses, norms and weights are the same bits however the model is cut and whichever schedule runs,
// for every number of microbatches (also fewer than stages); within rounding for replicas and other microbatchings.
#include <gtest/gtest.h>

#include <cmath>

#include "base/temporary_directory.hpp"
#include "support/pipeline_run.hpp"

namespace pipefill {
namespace {

using namespace testing_support;

class SameBits : public ::testing::TestWithParam<int> {
 protected:
  PipelineResult run(RunConfig config) {
    config.run.directory = scratch_ / ("run" + std::to_string(count_++));
    return run_over_loopback(config, hdf5_);
  }
  Hdf5Thread hdf5_;
  TemporaryDirectory scratch_;
  int count_ = 0;
};

void expect_same_bits(const PipelineResult& a, const PipelineResult& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(a.tensors, b.tensors);
}

void expect_close(const std::vector<double>& a, const std::vector<double>& b, double relative) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], relative * std::abs(b[i])) << "step " << i + 1;
}

TEST_P(SameBits, ForEveryCutAndSchedule) {
  const int microbatches = GetParam();
  for (const bool tied : {true, false}) {
    RunConfig base = small_run(1, 1, microbatches, "1f1b");
    base.model.tied = tied;
    const PipelineResult one = run(base);
    ASSERT_EQ(one.losses.size(), 3u);
    ASSERT_TRUE(std::isfinite(one.losses[2]));
    for (const int stages : {1, 2, 4})
      for (const char* schedule : {"gpipe", "1f1b"}) {
        SCOPED_TRACE(::testing::Message() << "P=" << stages << " " << schedule << " tied=" << tied);
        RunConfig config = base;
        config.parallel.stages = stages;
        config.schedule.name = schedule;
        expect_same_bits(run(config), one);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Microbatches, SameBits, ::testing::Values(1, 2, 3, 8));

using Close = SameBits;

TEST_F(Close, MicrobatchingsOfOneGlobalBatch) {
  std::vector<double> reference;
  for (const int microbatches : {1, 2, 4, 8}) {
    RunConfig config = small_run(2, 1, microbatches, "1f1b");
    config.schedule.microbatch_size = 8 / microbatches;
    config.run.steps = 20;
    const PipelineResult result = run(config);
    if (reference.empty()) reference = result.losses;
    expect_close(result.losses, reference, 1e-6);
  }
}

TEST_F(Close, ReplicasAndShardedOptimizer) {
  RunConfig config = small_run(1, 1, 4, "1f1b");
  config.run.steps = 20;
  const PipelineResult one = run(config);
  for (const int stages : {1, 2}) {
    config.parallel.stages = stages;
    config.parallel.replicas = 2;
    config.schedule.microbatches = 2;
    config.optimizer.shard = false;
    const PipelineResult whole = run(config);
    expect_close(whole.losses, one.losses, 1e-6);
    config.optimizer.shard = true;
    const PipelineResult shard = run(config);
    EXPECT_EQ(shard.losses, whole.losses) << "a sharded optimizer changes no bit";
    for (const auto& [name, values] : whole.tensors)
      if (name.starts_with("parameters/")) {
        EXPECT_EQ(shard.tensors.at(name), values) << name;
      }
  }
}

TEST_F(Close, ClippingUsesOneNormForAllStages) {  // BUGS A4
  RunConfig config = small_run(1, 1, 3, "gpipe");
  config.optimizer.clip = 0.1;
  const PipelineResult one = run(config);
  EXPECT_GT(one.norms[0], 0.1) << "clipping is active";
  config.parallel.stages = 3;
  expect_same_bits(run(config), one);
}

TEST_F(Close, HeldOutLossIsThatOfOneStage) {
  RunConfig config = small_run(1, 1, 2, "1f1b");
  config.data.validation_tokens = 256;
  const PipelineResult one = run(config);
  EXPECT_GT(one.validation_loss, 0);
  config.parallel.stages = 4;
  EXPECT_EQ(run(config).validation_loss, one.validation_loss);
}

TEST_F(Close, SynchronousSendsDoNotDeadlock) {  // BUGS A15
  for (const char* schedule : {"gpipe", "1f1b"}) {
    RunConfig config = small_run(4, 1, 8, schedule);
    config.run.directory = scratch_ / (std::string("sync-") + schedule);
    EXPECT_EQ(run_over_loopback(config, hdf5_, {SendMode::synchronous, {}}).losses.size(), 3u);
  }
}

}  // namespace
}  // namespace pipefill
