// The learning rate against its formulas at chosen steps.
#include "model/learning_rate.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace pipefill {
namespace {

TEST(LearningRate, WarmsUpLinearlyToThePeak) {
  for (auto decay :
       {LearningRateDecay::constant, LearningRateDecay::linear, LearningRateDecay::cosine, LearningRateDecay::wsd}) {
    const LearningRateSchedule s{.peak = 2.0, .final_fraction = 0.1, .warm_up = 4, .steps = 104, .decay = decay};
    EXPECT_DOUBLE_EQ(s.at(1), 0.5);
    EXPECT_DOUBLE_EQ(s.at(3), 1.5);
    EXPECT_DOUBLE_EQ(s.at(4), 2.0);
  }
}

TEST(LearningRate, DecaysAsItsNameSays) {
  LearningRateSchedule s{.peak = 2.0, .final_fraction = 0.1, .warm_up = 4, .steps = 104};
  EXPECT_DOUBLE_EQ(s.at(104), 2.0);
  s.decay = LearningRateDecay::linear;
  EXPECT_DOUBLE_EQ(s.at(54), 2.0 * 0.55);
  EXPECT_DOUBLE_EQ(s.at(104), 0.2);
  s.decay = LearningRateDecay::cosine;
  EXPECT_DOUBLE_EQ(s.at(54), 2.0 * 0.55);
  EXPECT_NEAR(s.at(29), 2.0 * (0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5))), 1e-12);
  EXPECT_DOUBLE_EQ(s.at(104), 0.2);
  s.decay = LearningRateDecay::wsd;
  s.steps = 100;
  EXPECT_DOUBLE_EQ(s.at(80), 2.0);
  EXPECT_NEAR(s.at(85), 2.0 * (1 - 0.9 * 0.5), 1e-12);
  EXPECT_DOUBLE_EQ(s.at(100), 0.2);
}

TEST(LearningRate, WithoutWarmUpTheFirstStepIsUndivided) {
  const LearningRateSchedule s{
      .peak = 3.0, .final_fraction = 0.0, .warm_up = 0, .steps = 3, .decay = LearningRateDecay::linear};
  EXPECT_DOUBLE_EQ(s.at(1), 2.0);
  EXPECT_DOUBLE_EQ(s.at(3), 0.0);
  EXPECT_DOUBLE_EQ(s.at(9), 0.0);
}

TEST(LearningRate, ARunShorterThanItsWarmUpStaysFinite) {
  const LearningRateSchedule s{
      .peak = 3.0, .final_fraction = 0.1, .warm_up = 10, .steps = 5, .decay = LearningRateDecay::cosine};
  EXPECT_DOUBLE_EQ(s.at(5), 1.5);
  EXPECT_DOUBLE_EQ(s.at(11), 0.3);
}

}  // namespace
}  // namespace pipefill
