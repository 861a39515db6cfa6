// Resume: 3 steps, a checkpoint and 3 more equal 6 straight steps bit for bit, AdamW's moments included, also into
// another layout; the samples go on where they stopped (BUGS A8).
#include <gtest/gtest.h>

#include "base/temporary_directory.hpp"
#include "support/pipeline_run.hpp"

namespace pipefill {
namespace {

using namespace testing_support;

struct Change {
  int stages_before, replicas_before, stages_after, replicas_after;
  bool shard;
};

class Resume : public ::testing::TestWithParam<Change> {
 protected:
  Hdf5Thread hdf5_;
  TemporaryDirectory scratch_;
};

TEST_P(Resume, EqualsAStraightRun) {
  const Change change = GetParam();
  RunConfig before = small_run(change.stages_before, change.replicas_before, 4 / change.replicas_before, "1f1b");
  before.optimizer.decay = LearningRateDecay::constant;  // the other decays depend on the number of steps
  before.optimizer.shard = change.shard;
  before.run.steps = 3;
  RunConfig after = before;
  after.run.steps = 6;
  after.parallel.stages = change.stages_after;
  after.parallel.replicas = change.replicas_after;
  after.schedule = {"gpipe", 4 / change.replicas_after, before.schedule.microbatch_size};

  before.run.directory = after.run.directory = scratch_ / "resumed";
  run_over_loopback(before, hdf5_);
  const PipelineResult resumed = run_over_loopback(after, hdf5_);

  after.run.directory = scratch_ / "straight";
  const PipelineResult straight = run_over_loopback(after, hdf5_);
  ASSERT_EQ(straight.losses.size(), 6u);
  EXPECT_EQ(resumed.losses, straight.losses);
  if (!change.shard) {
    EXPECT_EQ(resumed.tensors, straight.tensors);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Resume,
                         ::testing::Values(Change{1, 1, 1, 1, false}, Change{2, 1, 2, 1, false},
                                           Change{4, 1, 2, 1, false}, Change{2, 1, 4, 1, false},
                                           Change{1, 2, 1, 2, false}, Change{2, 2, 2, 2, true}));

}  // namespace
}  // namespace pipefill
