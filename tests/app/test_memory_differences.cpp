// Which differences between planned and measured memory a run tells.
#include <gtest/gtest.h>

#include "app/memory_differences.hpp"

namespace pipefill {
namespace {

TEST(MemoryDifferences, AreToldBeyondFivePercentOnceForEachStage) {
  const Bytes mebi{1 << 20};
  EXPECT_TRUE(memory_differences({{0, mebi * 100, mebi * 104}, {1, mebi * 100, mebi * 96}}).empty());
  const auto lines = memory_differences({{0, mebi * 100, mebi * 94},   // replica 0
                                         {0, mebi * 100, mebi * 107},  // replica 1, further off
                                         {1, mebi * 100, mebi * 100}});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], "stage 0: 100.0 MiB of memory were planned, the peak was 107.0 MiB");
  EXPECT_EQ(memory_differences({{0, Bytes{0}, Bytes{1}}}).size(), 1U);
}

}  // namespace
}  // namespace pipefill
