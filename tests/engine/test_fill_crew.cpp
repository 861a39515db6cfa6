// engine/fill_crew: jobs that share a rank's bubbles.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "granting.hpp"

namespace pipefill::testing {
namespace {

/// Chunk time of each job, by slot.
std::map<std::pair<int, int>, std::int64_t> fill_by_job_and_slot(const CollectingSink& sink) {
  std::map<std::pair<int, int>, std::int64_t> sums;
  for (const EventRow& row : sink.event_rows)
    if (static_cast<EventKind>(row.kind) == EventKind::fill) sums[{row.job, row.slot}] += row.end_ns - row.start_ns;
  return sums;
}

TEST_F(Granting, WhatOneJobLeavesOverAnotherTakes) {
  // The first one's chunks are too long for the second bubble.
  crew_.release(7);
  add(1, "chunks: 100000, chunk_us: 6000");
  add(2, "chunks: 100000, chunk_us: 300");
  BubbleFill fill(settings(), kProgram, crew_, trace());
  fill.run_alone(20ms);  // measured
  step(fill, 1, 20ms, 4ms);
  const std::int64_t long_before = done(1), short_before = done(2);
  // Until both came along; on a busy machine that takes more than the ten steps it needs.
  int number = 2;
  for (; number < 1000 && (done(1) < long_before + 10 || done(2) < short_before + 40); ++number)
    step(fill, number, 20ms, 4ms);
  EXPECT_LT(number, 1000) << done(1) << " " << done(2);
  EXPECT_GT(crew_.find(1)->fill_time, 50ms);
  EXPECT_GT(crew_.find(2)->fill_time, 10ms);
  auto sums = fill_by_job_and_slot(recorded());
  EXPECT_LT((sums[{1, 2}]), (sums[{2, 2}])) << "the short bubble is no place for the first one";
}

TEST_F(Granting, EachIsOfferedABubbleForChunksOfItsOwnLength) {
  // Half of the bubbles last 10 ms, half 12: a chunk of 0.3 ms may end 0.06 ms after the 10, for then a tenth of it is
  // expected to run over; one of 5 ms 1 ms after them.
  crew_.release(7);
  add(1, "chunks: 100000, chunk_us: 5000");
  add(2, "chunks: 100000, chunk_us: 300");
  BubbleFill fill(settings(), kProgram, crew_, trace());
  fill.run_alone(50ms);
  int number = 1;
  for (; number <= 12; ++number) step(fill, number, number % 2 == 0 ? 10ms : 12ms, 1ms);
  // On a busy machine their chunks may take longer for a while.
  bool seen = false;
  for (; number < 500 && !seen; ++number) {
    fill.begin_step(number);
    const Nanoseconds begin = now();
    Pause& pause = fill.enter(0, begin, kMemory, {-1});
    pause.begin();
    const Nanoseconds of_long = member(1).deadline - begin, of_short = member(2).deadline - begin;
    seen = of_long > 10500us && of_short > 9900us && of_short < 10300us;
    while (now() < begin + 10ms) pause.pause();
    fill.leave();
    fill.record(0, begin, begin + (number % 2 == 0 ? 10ms : 12ms), kMemory);
    fill.end_step(13ms);
  }
  EXPECT_TRUE(seen);
}

TEST_F(Granting, AJobThatSeemsToFitNowhereIsTriedNowAndThen) {
  // Its chunks were measured at 20 ms once; bubbles of 5 ms are never sold for such.
  crew_.release(7);
  add(1, "chunks: 100000, chunk_us: 200, fault: slow_start");
  BubbleFill fill(settings(), kProgram, crew_, trace());
  fill.run_alone(250ms);
  ASSERT_GT(member(1).usual_chunk(), 10ms);
  const std::int64_t before = done(1);
  int number = 1;
  for (; number < 2000 && done(1) < before + 50; ++number) step(fill, number, 5ms, 1ms);
  EXPECT_GE(done(1), before + 50) << number << " steps";
}

TEST_F(Granting, OneAfterTheOtherNeverTwoAtOnce) {
  add(2, "chunks: 100000, chunk_us: 300");
  BubbleFill fill(settings(), kProgram, crew_, trace());
  fill.run_alone(20ms);
  for (int number = 1; number <= 10; ++number) step(fill, number);
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const EventRow& row : recorded().event_rows)
    if (is_fill_work(static_cast<EventKind>(row.kind))) spans.emplace_back(row.start_ns, row.end_ns);
  std::ranges::sort(spans);
  ASSERT_GT(spans.size(), 50U);
  for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].second, spans[i].first) << i;
}

TEST_F(Granting, AHangKeepsNobodyElseFromItsBubbles) {
  FillCrew crew(worker(FillIsolation::process), make_null_log());
  const auto join = [&](int number, const std::string& with) {
    crew.assign({.number = number, .directory = job_directory("other-" + std::to_string(number), with)});
    ASSERT_TRUE(eventually([&] { return crew.find(number)->worker->job().state == AssignedState::ready; }));
  };
  join(1, "chunks: 1000, fault: hang, fault_at: 0");
  join(2, "chunks: 100000, chunk_us: 300");
  BubbleFill fill(settings(), kProgram, crew, trace());
  for (int number = 1; number <= 20; ++number) step(fill, number);
  EXPECT_GT(crew.hard_stops(), 0);
  EXPECT_EQ(crew.find(1)->worker->job().done, 0);
  EXPECT_GT(crew.find(2)->worker->job().done, 100) << "of 400 ms of bubbles in all";
}

TEST_F(Granting, WhenTheFirstIsOverTheSecondMovesUp) {
  crew_.release(7);
  add(1, "chunks: 3, chunk_us: 100");
  add(2, "chunks: 100000, chunk_us: 300");
  BubbleFill fill(settings(), kProgram, crew_, trace());
  for (int number = 1; number <= 4; ++number) step(fill, number);
  EXPECT_TRUE(eventually([&] { return member(1).worker->job().state == AssignedState::finished; }));
  crew_.release(1);
  EXPECT_EQ(crew_.jobs(), 1U);
  EXPECT_EQ(crew_.members()[0]->job, 2);
  const std::int64_t before = done(2);
  for (int number = 5; number <= 8; ++number) step(fill, number);
  EXPECT_GT(done(2) - before, 20);
  add(3, "chunks: 100000, chunk_us: 300");
  EXPECT_EQ(crew_.members().size(), 2U) << "a worker without a job is used again";
}

TEST_F(Granting, TheStatesOfAllJobsCountAgainstTheMemory) {
  crew_.release(7);
  crew_.assign({.number = 1,
                .directory = job_directory("big", "chunks: 100000, chunk_us: 200"),
                .resident = Bytes{kMemory.count - (1 << 19)}});
  ASSERT_TRUE(eventually([&] { return member(1).worker->job().state == AssignedState::ready; }));
  BubbleFill fill(settings(), kProgram, crew_, trace());
  for (int number = 1; number <= 5; ++number) step(fill, number);  // a chunk needs 1 MiB
  EXPECT_EQ(done(1), 0);
}

}  // namespace
}  // namespace pipefill::testing
