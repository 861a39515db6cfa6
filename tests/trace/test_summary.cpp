// trace/summary: every metric on events made by hand, against figures worked out by hand.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/trace/trace_samples.hpp"
#include "trace/summary.hpp"

namespace pipefill {
namespace {

using testing::sample_run;

RankRow rank_row(int rank, std::int64_t start, std::int64_t end, int attempt = 1) {
  RankRow row;
  row.attempt = attempt;
  row.rank = rank;
  row.stage = rank;
  row.stages = 2;
  row.start_ns = start;
  row.end_ns = end;
  row.last_event_ns = end;
  row.clock_start_uncertainty_ns = 40 * rank;
  return row;
}

EventRow event(int rank, EventKind kind, std::int64_t start, std::int64_t end, int step, int slot = -1,
               std::int64_t transfer = 0, std::int64_t bytes = 0) {
  EventRow row;
  row.rank = rank;
  row.stage = static_cast<std::int16_t>(rank);
  row.kind = static_cast<std::int16_t>(kind);
  row.start_ns = start;
  row.end_ns = end;
  row.step = step;
  row.slot = slot;
  row.transfer_ns = transfer;
  row.bytes = bytes;
  return row;
}

StepRow step(int rank, std::int64_t number, std::int64_t start, std::int64_t end, double loss) {
  StepRow row;
  row.rank = rank;
  row.step = number;
  row.start_ns = start;
  row.end_ns = end;
  row.tokens = 64;
  row.loss = loss;
  return row;
}

/// Two ranks, two steps of 100 ns, then 50 ns of validation; rank 0 waits 20 and 30 ns, rank 1 10 and 10 ns.
Summarizer two_ranks() {
  RunDescription run = sample_run();
  run.flops_per_token = 1000;
  run.peak_flops_per_rank = 640e9;
  Summarizer summarizer;
  summarizer.begin(run);
  summarizer.ranks(std::vector{rank_row(0, 0, 260), rank_row(1, 5, 265)});
  summarizer.steps(std::vector{step(0, 1, 0, 100, kUnknown), step(0, 2, 100, 200, kUnknown)});
  summarizer.steps(std::vector{step(1, 1, 5, 105, 4.0), step(1, 2, 105, 205, 3.0)});
  summarizer.events(std::vector{
      event(0, EventKind::forward, 0, 30, 1), event(0, EventKind::bubble_warm_up, 30, 50, 1, 4, 5, 1000),
      event(0, EventKind::fill, 32, 45, 1), event(0, EventKind::backward, 50, 100, 1),
      event(0, EventKind::forward, 100, 130, 2), event(0, EventKind::bubble_warm_up, 130, 160, 2, 4, 7, 900),
      event(0, EventKind::backward_input, 160, 180, 2), event(0, EventKind::backward_weight, 180, 200, 2),
      event(0, EventKind::validation, 200, 250, 2), event(0, EventKind::other, 250, 258, -1)});
  summarizer.events(
      std::vector{event(1, EventKind::bubble_warm_up, 5, 15, 1, 0), event(1, EventKind::forward, 15, 105, 1),
                  event(1, EventKind::bubble_steady, 105, 115, 2, 3), event(1, EventKind::optimizer, 115, 205, 2),
                  event(1, EventKind::validation, 205, 255, 2),
                  // A wait in a step that was never completed: in the time table, but not in the bubble fraction.
                  event(1, EventKind::bubble_warm_up, 255, 265, 3, 0)});
  return summarizer;
}

TEST(Summary, BubbleFractionIsBubblesOverRanksTimesStepTime) {
  const Summary summary = two_ranks().finish();
  EXPECT_DOUBLE_EQ(summary.bubble_fraction, (20 + 30 + 10 + 10) / (2 * 200.0));
  EXPECT_DOUBLE_EQ(summary.stages[0].bubble_fraction, 50 / 200.0);
  EXPECT_DOUBLE_EQ(summary.stages[1].bubble_fraction, 20 / 200.0);
  EXPECT_NEAR(summary.stages[0].bubble_fraction_median, 0.25, 1e-9);  // between 0.2 and 0.3
  EXPECT_NEAR(summary.stages[1].bubble_fraction_median, 0.10, 1e-9);
  EXPECT_NEAR(summary.bubble_fraction_median, 0.175, 1e-9);
}

TEST(Summary, RowsAddUpToTheWallTimeAndWhatIsMissingIsShown) {
  const Summary summary = two_ranks().finish();
  EXPECT_DOUBLE_EQ(summary.stages[0].wall_s, 260e-9);
  EXPECT_NEAR(summary.stages[0].unrecorded_s, 2e-9, 1e-18);  // 258 to 260
  EXPECT_NEAR(summary.stages[1].unrecorded_s, 0, 1e-18);

  const auto json = nlohmann::json::parse(summary_json(summary));
  for (const auto& stage : json["stages"]) {
    double sum = 0;
    for (const auto& [key, value] : stage.items())
      if (key.ends_with("_s") && key != "wall_s") sum += value.get<double>();
    EXPECT_NEAR(sum, stage["wall_s"].get<double>(), 1e-15);
  }
  EXPECT_NEAR(json["stages"][0]["backward_s"].get<double>(), 90e-9, 1e-18);  // whole, input and weight parts
  EXPECT_NEAR(json["stages"][1]["bubble_warm_up_s"].get<double>(), 20e-9, 1e-18);
}

TEST(Summary, SlotsHaveTheirQuantilesTransferAndMemory) {
  const Summary summary = two_ranks().finish();
  ASSERT_EQ(summary.bubbles.size(), 3u);
  const BubbleRow& first = summary.bubbles[0];
  EXPECT_EQ(first.stage, 0);
  EXPECT_EQ(first.slot, 4);
  EXPECT_EQ(first.kind, static_cast<int>(EventKind::bubble_warm_up));
  EXPECT_EQ(first.count, 2);
  EXPECT_EQ(first.median_ns, 25);
  EXPECT_EQ(first.p10_ns, 21);
  EXPECT_DOUBLE_EQ(first.mean_transfer_ns, 6);
  EXPECT_EQ(first.free_memory_min_bytes, 900);
  EXPECT_EQ(summary.bubbles[1].count, 1);  // the one in the unfinished step is left out
}

TEST(Summary, StepsRatesAndPeak) {
  const Summary summary = two_ranks().finish();
  EXPECT_EQ(summary.steps.count, 2);
  EXPECT_EQ(summary.steps.first, 1);
  EXPECT_EQ(summary.steps.last, 2);
  EXPECT_DOUBLE_EQ(summary.steps.loss_first, 4.0);
  EXPECT_DOUBLE_EQ(summary.steps.loss_last, 3.0);
  EXPECT_NEAR(summary.steps.tokens_per_s, 128 / 200e-9, 1);
  EXPECT_NEAR(summary.model_flops_per_s, 640e9, 1e3);
  EXPECT_NEAR(summary.mfu, 0.5, 1e-9);
  EXPECT_DOUBLE_EQ(summary.clock_uncertainty_s, 40e-9);
}

TEST(Summary, SaysNotAvailableWhatItCannotKnow) {
  Summarizer summarizer;
  summarizer.begin(sample_run());
  summarizer.ranks(std::vector{rank_row(0, 0, -1), rank_row(1, 0, 10)});
  const Summary summary = summarizer.finish();
  EXPECT_TRUE(std::isnan(summary.bubble_fraction));
  EXPECT_TRUE(std::isnan(summary.mfu));
  EXPECT_EQ(summary.unclosed_ranks, 1);
  const auto json = nlohmann::json::parse(summary_json(summary));
  EXPECT_TRUE(json["bubble_fraction"].is_null());
  EXPECT_TRUE(json["mfu"].is_null());
  EXPECT_TRUE(json["fill"]["slowdown"]["median"].is_null());
  EXPECT_TRUE(json["fill"]["conversion"].is_null());
  EXPECT_NE(summary_text(summary).find("no step was completed"), std::string::npos);
}

TEST(Summary, FiguresAreThoseOfTheLastLayout) {
  Summarizer summarizer;
  summarizer.begin(sample_run(1));
  RankRow resumed = rank_row(0, 200, 300, 2);
  resumed.stages = 1;
  summarizer.ranks(std::vector{rank_row(0, 0, 100), rank_row(1, 0, 100), resumed});
  StepRow second = step(0, 2, 200, 300, 1.0);
  second.attempt = 2;
  summarizer.steps(std::vector{step(0, 1, 0, 100, 2.0), second, step(1, 1, 0, 100, 2.0)});
  EventRow last = event(0, EventKind::bubble_steady, 200, 240, 2, 1);
  last.attempt = 2;
  summarizer.events(std::vector{event(0, EventKind::bubble_steady, 0, 90, 1, 1), last});
  const Summary summary = summarizer.finish();
  EXPECT_EQ(summary.attempts, 2);
  EXPECT_EQ(summary.ranks, 1);
  EXPECT_DOUBLE_EQ(summary.bubble_fraction, 0.4);      // of attempt 2 only
  EXPECT_DOUBLE_EQ(summary.stages[0].wall_s, 200e-9);  // of both
  EXPECT_EQ(summary.steps.count, 1);
}

}  // namespace
}  // namespace pipefill
