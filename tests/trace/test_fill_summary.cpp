// trace/fill_summary: what fill work brought and cost, on a run made by hand, against figures worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/trace/trace_samples.hpp"
#include "trace/summary.hpp"

namespace pipefill {
namespace {

using testing::sample_run;

RankRow rank_row(int rank, int attempt = 1) {
  RankRow row;
  row.attempt = attempt;
  row.rank = rank;
  row.stage = rank;
  row.stages = 2;
  row.end_ns = 1000;
  return row;
}

StepRow step(int rank, std::int64_t number, std::int64_t length, int filled, std::int64_t pair = -1, int attempt = 1) {
  StepRow row;
  row.attempt = attempt;
  row.rank = rank;
  row.step = number;
  row.start_ns = 1000 * number;
  row.end_ns = row.start_ns + length;
  row.filled = filled;
  row.pair = pair;
  return row;
}

/// Starts are counted from the step's.
EventRow event(int rank, EventKind kind, int step, std::int64_t start, std::int64_t length) {
  EventRow row;
  row.rank = rank;
  row.stage = static_cast<std::int16_t>(rank);
  row.kind = static_cast<std::int16_t>(kind);
  row.step = step;
  row.start_ns = 1000 * step + start;
  row.end_ns = row.start_ns + length;
  return row;
}

EventRow bubble(int rank, int step, std::int64_t length, std::int64_t granted, int slot) {
  EventRow row = event(rank, EventKind::bubble_steady, step, 0, length);
  row.granted_ns = granted;
  row.slot = slot;
  return row;
}

EventRow work(int rank, EventKind kind, int step, std::int64_t start, std::int64_t length, int cost_class,
              int job = 3) {
  EventRow row = event(rank, kind, step, start, length);
  row.job = job;
  row.cost_class = static_cast<std::int16_t>(cost_class);
  return row;
}

FillJobRow job(int number, const char* name, int attempt = 1) {
  FillJobRow row{.attempt = attempt, .job = number, .chunks = 20, .samples = 50};
  assign(row.name, name);
  assign(row.kind, "score");
  assign(row.configuration, "batch-4");
  return row;
}

/// Two ranks; steps 2 and 3 are filled; step 5 is never completed. Alone, a chunk of class 0 takes 10 ns on rank 0, one
/// of class 1 takes 20 ns on rank 1, and none of class 2 was ever run.
Summarizer filled_run() {
  Summarizer summarizer;
  summarizer.begin(sample_run());
  summarizer.ranks(std::vector{rank_row(0), rank_row(1)});
  summarizer.fill_jobs(std::vector{job(3, "letters")});
  summarizer.steps(std::vector{step(0, 1, 100, 0, 0), step(0, 2, 110, 1, 0), step(0, 3, 102, 1, 1),
                               step(0, 4, 100, 0, 1), step(1, 1, 60, 0, 0), step(1, 2, 50, 1, 0), step(1, 3, 38, 1, 1),
                               step(1, 4, 60, 0, 1)});
  summarizer.events(std::vector{
      work(0, EventKind::exclusive, -1, 0, 8, 0), work(0, EventKind::exclusive, -1, 10, 12, 0),
      work(0, EventKind::exclusive, -1, 30, 10, 0), bubble(0, 1, 30, 0, 4), bubble(0, 2, 40, 36, 4),
      work(0, EventKind::fill, 2, 0, 11, 0), work(0, EventKind::fill, 2, 12, 11, 0),
      work(0, EventKind::fill, 2, 35, 5, -1), event(0, EventKind::hand_over, 2, 40, 4),
      work(0, EventKind::overrun, 2, 40, 6, 1), event(0, EventKind::forward, 2, 44, 66), bubble(0, 3, 40, 32, 4),
      work(0, EventKind::fill, 3, 2, 25, 1), event(0, EventKind::hand_over, 3, 40, 8), bubble(0, 4, 30, 0, 4),
      bubble(0, 5, 30, 30, 4), work(0, EventKind::fill, 5, 0, 9, 0)});
  summarizer.events(std::vector{work(1, EventKind::exclusive, -1, 0, 20, 1), bubble(1, 2, 20, 10, 2),
                                work(1, EventKind::fill, 2, 1, 9, 2)});
  return summarizer;
}

TEST(FillSummary, WhatWasSoldRunAndConverted) {
  const FillSummary fill = filled_run().finish().fill;
  EXPECT_EQ(fill.filled_steps, 2);
  EXPECT_DOUBLE_EQ(fill.sold, (36 + 32 + 10) / 100.0);
  EXPECT_DOUBLE_EQ(fill.coverage, (11 + 11 + 5 + 25 + 9) / 100.0);
  EXPECT_DOUBLE_EQ(fill.conversion, (2 * 10 + 2 * 20) / 100.0);  // rank 0 borrows class 1's price from rank 1
  EXPECT_DOUBLE_EQ(fill.yield, 60 / (100.0 + 30 + 30));
  EXPECT_EQ(fill.unpriced, 1);
  EXPECT_DOUBLE_EQ(fill.overrun, 6 / (110 + 102 + 50 + 38.0));
  EXPECT_DOUBLE_EQ(fill.overrun_s, 6e-9);
  EXPECT_EQ(fill.hand_overs, 2);
  EXPECT_DOUBLE_EQ(fill.hand_over_p50_s, 6e-9);
  EXPECT_DOUBLE_EQ(fill.hand_over_p99_s, 7.96e-9);
}

TEST(FillSummary, WorkPerJob) {
  const Summarizer summarizer = filled_run();
  const FillSummary fill = summarizer.finish().fill;
  ASSERT_EQ(fill.jobs.size(), 1u);
  const FillJobSummary& letters = fill.jobs[0];
  EXPECT_EQ(letters.name, "letters");
  EXPECT_EQ(letters.configuration, "batch-4");
  EXPECT_EQ(letters.done, 10);  // alone, in steps, and in the step that was not completed
  EXPECT_EQ(letters.done_alone, 4);
  EXPECT_DOUBLE_EQ(letters.samples, 25);  // half of the job's chunks
  EXPECT_DOUBLE_EQ(letters.fill_s, 70e-9);
  EXPECT_DOUBLE_EQ(letters.overrun_s, 6e-9);
  EXPECT_DOUBLE_EQ(letters.exclusive_s, (6 * 10 + 3 * 20) * 1e-9);
  EXPECT_EQ(letters.unpriced, 1);
  const std::vector<FillJobRow> rows = summarizer.fill_jobs();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].exclusive_ns, 120);
  EXPECT_EQ(rows[0].done, 10);
  EXPECT_EQ(rows[0].chunks, 20);
}

TEST(FillSummary, WhatASlotSoldAndWhatItBrought) {
  const std::vector<BubbleRow> bubbles = filled_run().bubbles();
  ASSERT_EQ(bubbles.size(), 2u);
  EXPECT_EQ(bubbles[0].count, 4);  // the means below are over the two in filled steps
  EXPECT_DOUBLE_EQ(bubbles[0].mean_granted_ns, (36 + 32) / 2.0);
  EXPECT_DOUBLE_EQ(bubbles[0].mean_filled_ns, (11 + 11 + 5 + 25) / 2.0);
  EXPECT_DOUBLE_EQ(bubbles[1].mean_granted_ns, 10);
  EXPECT_DOUBLE_EQ(bubbles[1].mean_filled_ns, 9);
}

TEST(FillSummary, SlowdownIsThatOfTheLowestRanksPairs) {
  const MedianInterval slowdown = filled_run().finish().fill.slowdown;
  EXPECT_EQ(slowdown.count, 2);
  EXPECT_NEAR(slowdown.median, (0.10 + 0.02) / 2, 1e-12);
  EXPECT_TRUE(std::isinf(slowdown.high));  // two pairs promise nothing

  Summarizer summarizer;
  summarizer.begin(sample_run());
  summarizer.ranks(std::vector{rank_row(0), rank_row(1)});
  std::int64_t number = 0;
  for (int pair = 0; pair < 6; ++pair) {  // blocks of three: 1 % to 6 % slower in the mean
    for (const int extra : {0, 0, 3 * pair + 3}) summarizer.steps(std::vector{step(0, ++number, 100 + extra, 1, pair)});
    for (int i = 0; i < 3; ++i) summarizer.steps(std::vector{step(0, ++number, 100, 0, pair)});
    summarizer.steps(std::vector{step(0, ++number, 999, 1, -1)});
  }
  for (int i = 0; i < 3; ++i) summarizer.steps(std::vector{step(0, ++number, 500, 1, 6)});
  summarizer.steps(std::vector{step(0, ++number, 100, 0, 6)});  // cut by the end: less than half of a block
  const MedianInterval six = summarizer.finish().fill.slowdown;
  EXPECT_EQ(six.count, 6);
  EXPECT_NEAR(six.median, 0.035, 1e-12);
  EXPECT_NEAR(six.low, 0.01, 1e-12);
  EXPECT_NEAR(six.high, 0.06, 1e-12);
}

TEST(FillSummary, AProgramWithoutChunksCountsItsCpuTime) {
  Summarizer summarizer;
  summarizer.begin(sample_run());
  summarizer.ranks(std::vector{rank_row(0), rank_row(1)});
  summarizer.steps(std::vector{step(0, 1, 100, 1)});
  EventRow first = work(0, EventKind::fill, 1, 0, 20, -1), last = work(0, EventKind::fill, 1, 25, 10, 0);
  first.granted_ns = 19;
  last.granted_ns = 9;
  summarizer.events(std::vector{bubble(0, 1, 40, 40, 1), first, last});
  const FillSummary fill = summarizer.finish().fill;
  EXPECT_DOUBLE_EQ(fill.conversion, 28 / 40.0);
  EXPECT_DOUBLE_EQ(fill.coverage, 30 / 40.0);
  EXPECT_EQ(fill.unpriced, 0);
  EXPECT_DOUBLE_EQ(fill.jobs.at(0).exclusive_s, 28e-9);
}

TEST(FillSummary, AJobIsTheSameInTheNextAttemptWhateverItsNumber) {
  Summarizer summarizer;
  summarizer.begin(sample_run());
  summarizer.ranks(std::vector{rank_row(0), rank_row(1), rank_row(0, 2), rank_row(1, 2)});
  summarizer.fill_jobs(std::vector{job(0, "letters"), job(0, "other", 2), job(7, "letters", 2)});
  summarizer.steps(std::vector{step(0, 1, 100, 1), step(0, 2, 100, 1, -1, 2)});
  EventRow waits = bubble(0, 2, 40, 40, 1), chunk = work(0, EventKind::fill, 2, 0, 30, 0, 7);
  waits.attempt = chunk.attempt = 2;
  summarizer.events(std::vector{work(0, EventKind::exclusive, -1, 0, 24, 0, 0), waits, chunk});
  const FillSummary fill = summarizer.finish().fill;
  EXPECT_DOUBLE_EQ(fill.conversion, 24 / 40.0);
  ASSERT_EQ(fill.jobs.size(), 2u);
  EXPECT_EQ(fill.jobs[0].name, "letters");
  EXPECT_EQ(fill.jobs[0].done, 2);
  EXPECT_EQ(fill.jobs[1].done, 0);
  EXPECT_EQ(summarizer.fill_jobs().size(), 3u);  // by attempt and number, as in /events
}

TEST(FillSummary, NotAvailableIsNull) {
  Summarizer summarizer;
  summarizer.begin(sample_run());
  summarizer.ranks(std::vector{rank_row(0), rank_row(1)});
  summarizer.steps(std::vector{step(0, 1, 100, -1)});
  summarizer.events(std::vector{bubble(0, 1, 40, 0, 1)});
  const auto fill = nlohmann::json::parse(summary_json(summarizer.finish()))["fill"];
  for (const char* key : {"conversion", "coverage", "yield", "sold", "overrun", "overrun_s"})
    EXPECT_TRUE(fill[key].is_null()) << key;
  for (const char* key : {"median", "low", "high"}) EXPECT_TRUE(fill["slowdown"][key].is_null()) << key;
  EXPECT_TRUE(fill["jobs"].empty());
  EXPECT_NE(summary_text(summarizer.finish()).find("no step was filled"), std::string::npos);

  // Chunks of which none can be priced: their worth is not known, which is not the same as none.
  Summarizer unpriced;
  unpriced.begin(sample_run());
  unpriced.ranks(std::vector{rank_row(0), rank_row(1)});
  unpriced.steps(std::vector{step(0, 1, 100, 1)});
  unpriced.events(std::vector{bubble(0, 1, 40, 40, 1), work(0, EventKind::fill, 1, 0, 30, 0)});
  EXPECT_TRUE(std::isnan(unpriced.finish().fill.conversion));
  EXPECT_DOUBLE_EQ(unpriced.finish().fill.coverage, 0.75);
  EXPECT_NE(summary_text(unpriced.finish()).find("not in conversion and yield: 1 "), std::string::npos);
}

TEST(FillSummary, TheTimeTableLiesUnderFillWork) {
  const Summary summary = filled_run().finish();
  const auto json = nlohmann::json::parse(summary_json(summary));
  EXPECT_DOUBLE_EQ(json["stages"][0]["hand_over_s"].get<double>(), 12e-9);
  EXPECT_NEAR(json["stages"][0]["unrecorded_s"].get<double>(), (1000 - 170 - 12 - 66) * 1e-9, 1e-15);
  EXPECT_DOUBLE_EQ(json["stages"][0]["fill_work"]["in_bubbles_s"].get<double>(), 61e-9);
  EXPECT_DOUBLE_EQ(json["stages"][0]["fill_work"]["overrun_s"].get<double>(), 6e-9);
  EXPECT_DOUBLE_EQ(json["stages"][0]["fill_work"]["alone_s"].get<double>(), 30e-9);
  EXPECT_DOUBLE_EQ(json["fill"]["conversion"].get<double>(), 0.6);
  EXPECT_TRUE(json["fill"]["slowdown"]["high"].is_null());
  const std::string text = summary_text(summary);
  EXPECT_NE(text.find("conversion     60.00 %"), std::string::npos) << text;
  EXPECT_NE(text.find("10 of 20"), std::string::npos) << text;
}

}  // namespace
}  // namespace pipefill
