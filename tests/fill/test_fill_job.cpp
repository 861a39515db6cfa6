// fill/chunk_sequence, fill/fill_job, fill/recent_times: against plain lists that keep everything.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/error.hpp"
#include "fill/fill_job.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

std::vector<ChunkRun> ordered(const ChunkSequence& sequence, std::int64_t from, std::int64_t most = INT64_MAX) {
  std::vector<ChunkRun> chunks;
  sequence.walk(from, [&](ChunkRun run, std::int64_t count) {
    run.count = 1;
    for (; count > 0 && most > 0; --count, --most) chunks.push_back(run);
    return most > 0;
  });
  return chunks;
}

TEST(ChunkSequence, HoldsTheChunksOfAnyListAndTotalsThemFromAnywhere) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const int prefix = static_cast<int>(random() % 4), period = 1 + static_cast<int>(random() % 9);
    const int suffix = static_cast<int>(random() % 4), repeats = static_cast<int>(random() % 60);
    const auto any = [&] {
      return ChunkRun{.cost_class = static_cast<int>(random() % 3), .memory = {5}, .samples = 1};
    };
    std::vector<ChunkRun> list, pattern;
    for (int i = 0; i < prefix; ++i) list.push_back(any());
    for (int i = 0; i < period; ++i) pattern.push_back(any());
    for (int i = 0; i < repeats; ++i) list.insert(list.end(), pattern.begin(), pattern.end());
    for (int i = 0; i < suffix; ++i) list.push_back(any());
    ChunkSequence sequence;
    for (const ChunkRun& chunk : list) sequence.append(chunk);
    ASSERT_EQ(sequence.size(), static_cast<std::int64_t>(list.size()));
    for (std::size_t from = 0; from <= list.size(); from += 1 + random() % 7) {
      const std::vector<ChunkRun> expected(list.begin() + static_cast<std::ptrdiff_t>(from), list.end());
      ASSERT_EQ(ordered(sequence, static_cast<std::int64_t>(from)), expected) << trial << " from " << from;
      std::array<std::int64_t, 3> of_class{}, expected_of_class{};
      for (const ChunkRun& chunk : expected) ++expected_of_class[static_cast<std::size_t>(chunk.cost_class)];
      sequence.total(static_cast<std::int64_t>(from), [&](const ChunkRun& run, std::int64_t count) {
        of_class[static_cast<std::size_t>(run.cost_class)] += count;
      });
      ASSERT_EQ(of_class, expected_of_class) << trial << " from " << from;
    }
  }
}

TEST(ChunkSequence, AMillionChunksOfATransformerStaySmall) {
  ChunkSequence sequence;
  sequence.append({.count = 1, .cost_class = 3});  // something before the first batch
  for (int batch = 0; batch < 125'000; ++batch) {
    sequence.append({.count = 1, .cost_class = 0});  // embedding
    sequence.append({.count = 6, .cost_class = 1});  // blocks
    sequence.append({.count = 1, .cost_class = 2, .samples = 4});
  }
  EXPECT_EQ(sequence.size(), 1'000'001);
  EXPECT_LE(sequence.stored_runs(), 12U);
  EXPECT_EQ(ordered(sequence, 999'993, 1).front().cost_class, 0);
  EXPECT_EQ(ordered(sequence, 1'000'000, 1).front().samples, 4);
}

TEST(FillJob, CostsArePredictedUntilMeasuredThenMedians) {
  EXPECT_EQ(predict_time(2e9, 1e3, {.flops_per_second = 1e9, .bytes_per_second = 1e9}), 2s);
  EXPECT_EQ(predict_time(2e3, 3e9, {.flops_per_second = 1e9, .bytes_per_second = 1e9}), 3s);
  ChunkTime time(2ms);
  EXPECT_EQ(time.time(), 2ms);
  EXPECT_EQ(time.source(), CostSource::predicted);
  for (const auto measured : {3ms, 90ms, 4ms}) time.measured(measured);
  EXPECT_EQ(time.time(), 4ms);
  EXPECT_EQ(time.source(), CostSource::measured);

  FillConfiguration configuration;
  configuration.times = {ChunkTime(1ms), ChunkTime(10ms)};
  configuration.chunks.append({.count = 5, .cost_class = 0});
  configuration.chunks.append({.count = 2, .cost_class = 1});
  EXPECT_EQ(configuration.remaining_time(0), 25ms);
  EXPECT_EQ(configuration.remaining_time(6), 10ms);
  EXPECT_EQ(configuration.remaining_time(7), 0ms);
}

TEST(FillJob, WhatAKindSaysIsPricedOrRefused) {
  FillConfiguration configuration;
  const MachineRate rate{.flops_per_second = 1e9, .bytes_per_second = 1e9};
  configuration.append({.count = 3, .cost_class = 1, .memory = {8}, .samples = 1}, 2e6, 0, rate);
  configuration.append({.count = 1, .cost_class = 1, .memory = {8}, .samples = 1}, 1e6, 0, rate);
  configuration.append({.count = 1, .cost_class = 0}, 0, 0, rate);
  configuration.append({.count = 1, .cost_class = 2}, 1e300, 0, rate);
  EXPECT_EQ(configuration.chunks.size(), 6);
  EXPECT_EQ(configuration.times[1].time(), 2ms) << "the slowest of the class";
  EXPECT_EQ(configuration.times[0].time(), 1ms) << "nothing said";
  EXPECT_EQ(configuration.times[2].time(), 1h) << "an absurd claim";
  configuration.append({.count = std::int64_t{1} << 52, .cost_class = 2}, 1e300, 0, rate);
  EXPECT_GT(configuration.remaining_time(0), 100 * 365 * 24h) << "and no overflow";
  const auto refused = [&](ChunkRun run, double flops, double bytes) {
    EXPECT_THROW(configuration.append(run, flops, bytes, rate), Error);
  };
  refused({.count = std::int64_t{1} << 53}, 1, 1);
  refused({.cost_class = -1}, 1, 1);
  refused({.cost_class = 1 << 20}, 1, 1);
  refused({.memory = {-1}}, 1, 1);
  refused({.samples = std::nan("")}, 1, 1);
  refused({}, -1, 1);
  refused({}, 1, std::numeric_limits<double>::infinity());
  EXPECT_EQ(configuration.times.size(), 3U);
}

TEST(FillJob, ProgressOnlyGrows) {
  FillProgress progress;
  progress.reached(7);
  progress.reached(3);  // an old report
  EXPECT_EQ(progress.done(), 7);
}

TEST(RecentTimes, QuantilesAreThoseOfTheLast32) {
  std::mt19937 random(3);
  RecentTimes recent;
  std::vector<Nanoseconds> all;
  for (int i = 0; i < 200; ++i) {
    all.emplace_back(random() % 40);
    recent.add(all.back());
    std::vector<Nanoseconds> last(all.end() - std::min<std::ptrdiff_t>(32, std::ssize(all)), all.end());
    std::sort(last.begin(), last.end());
    ASSERT_EQ(recent.size(), std::ssize(last));
    for (const double q : {0.0, 0.2, 0.5, 0.9, 1.0})
      ASSERT_EQ(recent.quantile(q), last[static_cast<std::size_t>(q * static_cast<double>(last.size() - 1))]);
    const auto beyond = recent.beyond(20ns);
    ASSERT_TRUE(std::ranges::equal(beyond, std::span(std::upper_bound(last.begin(), last.end(), 20ns), last.end())));
  }
}

}  // namespace
}  // namespace pipefill
