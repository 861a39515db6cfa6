// trace/distribution: quantiles against definitions that can be worked out by hand.
#include <gtest/gtest.h>

#include "trace/distribution.hpp"

namespace pipefill {
namespace {

TEST(Distribution, QuantilesAreExactAndInterpolated) {
  Distribution values;
  EXPECT_EQ(values.quantile(0.5), 0);
  for (const int value : {50, 10, 40, 20, 30}) values.add(value);
  EXPECT_EQ(values.count(), 5);
  EXPECT_DOUBLE_EQ(values.mean(), 30);
  EXPECT_DOUBLE_EQ(values.quantile(0), 10);
  EXPECT_DOUBLE_EQ(values.quantile(0.5), 30);
  EXPECT_DOUBLE_EQ(values.quantile(0.1), 14);  // between 10 and 20, at 0.4: numpy.quantile([10,20,30,40,50], .1)
  EXPECT_DOUBLE_EQ(values.quantile(0.99), 49.6);
  EXPECT_DOUBLE_EQ(values.quantile(1), 50);
  values.add(60);  // after having been sorted
  EXPECT_DOUBLE_EQ(values.quantile(0.5), 35);
}

TEST(Distribution, StaysCloseBeyondTheExactSize) {
  Distribution values;
  constexpr int kCount = 500'000;
  for (int i = 0; i < kCount; ++i) values.add(i % 2 == 0 ? i : kCount - i);  // any order; uniform on 0..kCount
  EXPECT_EQ(values.count(), kCount);
  for (const double q : {0.1, 0.5, 0.9, 0.99}) {
    EXPECT_NEAR(values.quantile(q) / kCount, q, 5 * 0.0056) << q;  // five standard errors of the median's rank
  }
}

}  // namespace
}  // namespace pipefill
