// fill/sale: by hand, and against the expected overrun worked out for every possible end.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "fill/sale.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

/// Of a chunk that ends at `end`, on the average over the lengths from its start on; in shares of the chunk.
double expected_overrun(const std::vector<Nanoseconds>& lengths, Nanoseconds end, Nanoseconds chunk) {
  double sum = 0;
  int count = 0;
  for (const Nanoseconds length : lengths) {
    if (length < end - chunk) continue;
    ++count;
    sum += static_cast<double>(std::max(Nanoseconds{0}, end - length).count());
  }
  return count == 0 ? 1 : sum / count / static_cast<double>(chunk.count());
}

TEST(Sale, EqualLengthsAreSoldToTheShareOfAChunkPastThem) {
  const std::vector<Nanoseconds> lengths(8, 10ms);
  EXPECT_EQ(sell_until(lengths, 0ms, 1ms, 0), 10ms);
  EXPECT_EQ(sell_until(lengths, 0ms, 1ms, 0.25), 10250us);
  EXPECT_EQ(sell_until(lengths, 9500us, 1ms, 0.25), 9500us) << "half of the chunk would run over";
  EXPECT_EQ(sell_until(lengths, 9250us, 1ms, 0.25), 10250us);
}

TEST(Sale, ARareShortLengthIsWorthItsRiskAndAClusterIsNot) {
  // One of ten ends at 3 ms: a chunk across it loses at most 1 ms in one of ten.
  std::vector<Nanoseconds> lengths(10, 10ms);
  lengths.front() = 3ms;
  EXPECT_EQ(sell_until(lengths, 0ms, 1ms, 0.1), 10100us);
  EXPECT_EQ(sell_until(lengths, 0ms, 1ms, 0.09), 3900us);
  // Half of them end there: the chunk that may run half over at most.
  std::fill(lengths.begin(), lengths.begin() + 5, 3ms);
  EXPECT_EQ(sell_until(lengths, 0ms, 1ms, 0.1), 3200us);
  EXPECT_EQ(sell_until(std::span(lengths).subspan(5), 3001us, 1ms, 0.1), 10100us) << "these are past";
}

TEST(Sale, OfEvenlyScatteredLengthsNearlyAllIsSold) {
  std::vector<Nanoseconds> lengths;
  for (int i = 0; i < 32; ++i) lengths.push_back(20ms + i * 500us);
  // A chunk of 1 ms overruns two of those left, by 0.5 and 1 ms at most: of 15 that is a tenth of a chunk.
  EXPECT_GT(sell_until(lengths, 0ms, 1ms, 0.1), lengths[32 - 15]);
  EXPECT_LT(sell_until(lengths, 0ms, 1ms, 0.1), lengths[32 - 15] + 2ms);
  EXPECT_LT(sell_until(lengths, 0ms, 1ms, 0.02), 21ms);
}

TEST(Sale, IsTheFirstEndThatIsNotWorthIt) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Nanoseconds> lengths(1 + random() % 32);
    const int spread = 1 + static_cast<int>(random() % 20'000);
    for (Nanoseconds& length : lengths) length = Nanoseconds{1000 + static_cast<int>(random()) % spread};
    for (Nanoseconds& length : lengths) length = std::max(length, 1000ns);
    std::ranges::sort(lengths);
    const Nanoseconds elapsed{static_cast<int>(random() % 1000)};
    const Nanoseconds chunk{1 + static_cast<int>(random() % 4000)};
    const double share = 0.01 * static_cast<double>(random() % 60);
    const Nanoseconds until = sell_until(lengths, elapsed, chunk, share);
    if (until == elapsed) {
      EXPECT_GT(expected_overrun(lengths, elapsed + chunk, chunk), share);
      continue;
    }
    ASSERT_GE(until, elapsed + chunk);
    for (Nanoseconds end = elapsed + chunk; end <= until; end += std::max(1ns, (until - end) / 50))
      ASSERT_LE(expected_overrun(lengths, end, chunk), share + 1e-9) << round;
    ASSERT_GT(expected_overrun(lengths, until + 1ns, chunk), share) << round;
  }
}

}  // namespace
}  // namespace pipefill
