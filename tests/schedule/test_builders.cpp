// GPipe, 1F1B and forward-only against published numbers, and every promise over a grid of stages and microbatches.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "interpreter.hpp"
#include "schedule/bubbles.hpp"
#include "schedule/build.hpp"
#include "schedule/communication.hpp"
#include "schedule/dry_run.hpp"
#include "schedule/forward_only.hpp"
#include "schedule/timeline.hpp"
#include "schedule/validate.hpp"

namespace pipefill {
namespace {

constexpr Nanoseconds kUnit{1};

Timeline unit_timeline(const Schedule& schedule) {
  return price(schedule, uniform_costs(schedule, kUnit, kUnit, kUnit));
}

struct ReferenceRow {
  std::string name;
  int stages, microbatches;
  double makespan, global_rate, span, span_rate;
  std::vector<double> peaks;
};

std::vector<ReferenceRow> reference_rows() {
  std::ifstream file(PIPEFILL_SOURCE_DIR "/tests/data/schedules/schedules_unit_1_1_1.csv");
  std::vector<ReferenceRow> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    ReferenceRow row;
    int chunks_per_stage = 0;
    words >> row.name >> row.stages >> chunks_per_stage >> row.microbatches >> row.makespan >> row.global_rate >>
        row.span >> row.span_rate;
    for (double peak; words >> peak;) row.peaks.push_back(peak);
    if (row.name == "gpipe" || row.name == "1f1b") rows.push_back(row);
  }
  return rows;
}

TEST(Builders, MatchTheReferenceTable) {
  const auto rows = reference_rows();
  ASSERT_EQ(rows.size(), 18u);
  for (const ReferenceRow& row : rows) {
    SCOPED_TRACE(row.name + " p=" + std::to_string(row.stages) + " m=" + std::to_string(row.microbatches));
    const Timeline timeline = unit_timeline(build_schedule(row.name, row.stages, row.microbatches));
    EXPECT_EQ(static_cast<double>(timeline.makespan.count()), row.makespan);
    EXPECT_NEAR(timeline.bubble_fraction, row.global_rate, 5e-5);
    EXPECT_NEAR(timeline.device_span_bubble_fraction, row.span_rate, 5e-5);
    ASSERT_EQ(row.peaks.size(), timeline.stages.size());
    for (std::size_t stage = 0; stage < row.peaks.size(); ++stage) {
      EXPECT_EQ(timeline.stages[stage].peak_microbatches, row.peaks[stage]) << "stage " << stage;
    }
  }
}

// Zero Bubble paper (arXiv 2401.10241), 1F1B bubble rates over the device span with measured costs and hops.
TEST(Builders, MatchThePublishedRatesOf1F1B) {
  struct Row {
    int microbatches;
    std::int64_t forward, input, weight, hop;
    double rate;
  };
  for (const Row& row : {Row{24, 18522, 18086, 9337, 601, .2431}, Row{32, 18513, 18086, 9331, 626, .1985},
                         Row{64, 18546, 18097, 9321, 762, .1240}, Row{24, 29718, 29444, 19927, 527, .2347},
                         Row{32, 29802, 29428, 19530, 577, .1898}, Row{64, 29935, 29621, 19388, 535, .1091}}) {
    const Schedule schedule = with_communication(build_schedule("1f1b", 8, row.microbatches), Replicas::one);
    CostModel costs =
        uniform_costs(schedule, Nanoseconds{row.forward}, Nanoseconds{row.input}, Nanoseconds{row.weight});
    costs.hop = Nanoseconds{row.hop};
    EXPECT_NEAR(price(schedule, costs).device_span_bubble_fraction, row.rate, 5e-5) << row.microbatches;
  }
}

// More microbatches than stages or fewer, down to one: nothing hangs and nothing is refused without need.
TEST(Builders, EveryPromiseHoldsOnTheGrid) {
  for (const std::string& name : schedule_names()) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int microbatches = 1; microbatches <= 16; ++microbatches) {
        SCOPED_TRACE(name + " p=" + std::to_string(stages) + " m=" + std::to_string(microbatches));
        const Schedule compute = build_schedule(name, stages, microbatches);
        const Schedule lowered = with_communication(compute, Replicas::several);
        const Schedule schedule = with_bubbles(lowered);
        for (const Schedule* each : {&compute, &lowered, &schedule}) {
          EXPECT_NO_THROW(validate(*each));
          EXPECT_TRUE(dry_run(*each).complete());
          EXPECT_TRUE(is_safe_under_synchronous_sends(*each));
        }
        test::Interpreter interpreter(schedule, test::Interpreter::Sends::synchronous);
        EXPECT_TRUE(interpreter.run());

        const Timeline timeline = unit_timeline(schedule);
        EXPECT_EQ(timeline.makespan.count(), 3 * (microbatches + stages - 1));
        EXPECT_EQ(unit_timeline(compute).makespan, timeline.makespan);
        EXPECT_NEAR(timeline.bubble_fraction, *closed_form_bubble_fraction(name, stages, microbatches), 1e-12);
        for (int stage = 0; stage < stages; ++stage) {
          const StageTimeline& result = timeline.stages[static_cast<std::size_t>(stage)];
          EXPECT_EQ(result.busy + result.idle, timeline.makespan);
          EXPECT_EQ(result.peak_microbatches, name == "gpipe" ? microbatches : std::min(microbatches, stages - stage));
        }
      }
    }
  }
}

TEST(Builders, BackwardsRunInAscendingMicrobatchOrder) {
  for (const std::string& name : schedule_names()) {
    for (const Program& program : build_schedule(name, 4, 7).programs) {
      int next_forward = 0, next_backward = 0;
      for (const Instruction& instruction : program) {
        if (const auto* i = std::get_if<Forward>(&instruction)) {
          EXPECT_EQ(i->microbatch.value, next_forward++);
        }
        if (const auto* i = std::get_if<Backward>(&instruction)) {
          EXPECT_EQ(i->microbatch.value, next_backward++);
        }
      }
      EXPECT_EQ(next_forward, 7);
      EXPECT_EQ(next_backward, 7);
    }
  }
}

TEST(Builders, ForwardOnlyHasNoBackwardAndNoStep) {
  for (int stages : {1, 3, 8}) {
    for (int microbatches : {1, 2, 9}) {
      const Schedule schedule = with_bubbles(with_communication(forward_only(stages, microbatches), Replicas::several));
      EXPECT_NO_THROW(validate(schedule));
      EXPECT_TRUE(is_safe_under_synchronous_sends(schedule));
      EXPECT_EQ(unit_timeline(schedule).makespan.count(), microbatches + stages - 1);
      for (const Program& program : schedule.programs) {
        for (const Instruction& instruction : program) {
          EXPECT_FALSE(std::holds_alternative<Backward>(instruction));
          EXPECT_FALSE(std::holds_alternative<OptimizerStep>(instruction));
          EXPECT_FALSE(std::holds_alternative<ReduceGradients>(instruction));
        }
      }
      EXPECT_EQ(unit_timeline(schedule).stages.front().peak_microbatches, 1);
    }
  }
}

TEST(Builders, RefuseUnknownNamesAndEmptyShapes) {
  const auto refusal = [](const std::string& name, int stages, int microbatches) -> std::string {
    try {
      build_schedule(name, stages, microbatches);
    } catch (const ScheduleError& error) {
      EXPECT_EQ(error.code(), ExitCode::deck);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(refusal("1fb1", 2, 2).find("did you mean '1f1b'?"), std::string::npos);
  EXPECT_NE(refusal("zigzag", 2, 2).find("valid names: 1f1b, gpipe"), std::string::npos);
  EXPECT_NE(refusal("gpipe", 0, 2).find("0 stages and 2 microbatches"), std::string::npos);
  EXPECT_NE(refusal("1f1b", 2, -1).find("2 stages and -1 microbatches"), std::string::npos);
  EXPECT_FALSE(closed_form_bubble_fraction("forward_only", 2, 2));
}

}  // namespace
}  // namespace pipefill
