// base/median_interval: its promise over many samples, and the tables of the sign test.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "base/median_interval.hpp"

namespace pipefill {
namespace {

TEST(MedianInterval, HoldsTheMedianAsOftenAsPromised) {
  // Of an exponential distribution: skewed, so that an interval made for a normal one would fail.
  std::mt19937 random(1);
  std::exponential_distribution<> noise(1);
  for (const int n : {6, 9, 20, 64, 200}) {
    int held = 0;
    constexpr int kTrials = 4000;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> sample(static_cast<std::size_t>(n));
      for (double& value : sample) value = noise(random);
      const MedianInterval estimate = median_interval(sample);
      ASSERT_LE(estimate.low, estimate.median);
      ASSERT_LE(estimate.median, estimate.high);
      held += estimate.low <= std::log(2.0) && std::log(2.0) <= estimate.high ? 1 : 0;
    }
    EXPECT_GT(held, 0.94 * kTrials) << n;
  }
}

TEST(MedianInterval, IsTheTablesOne) {
  // Two-sided 95 % for the median, from tables of the sign test: n = 6: (1, 6); 10: (2, 9); 20: (6, 15); 50: (18, 33).
  for (const auto& [n, low] : std::map<int, int>{{6, 1}, {10, 2}, {20, 6}, {50, 18}}) {
    std::vector<double> ranks;
    for (int i = n; i >= 1; --i) ranks.push_back(i);
    const MedianInterval estimate = median_interval(ranks);
    EXPECT_EQ(estimate.low, low) << n;
    EXPECT_EQ(estimate.high, n + 1 - low) << n;
    EXPECT_DOUBLE_EQ(estimate.median, (n + 1) / 2.0);
  }
  EXPECT_TRUE(std::isinf(median_interval(std::vector<double>(5, 0.0)).high)) << "five values promise nothing";
}

}  // namespace
}  // namespace pipefill
