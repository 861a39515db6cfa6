// Pricing against hand-made timelines: bubbles by slot and class, hops, slack, reductions, memory.
#include <gtest/gtest.h>

#include <random>

#include "base/error.hpp"
#include "schedule/bubbles.hpp"
#include "schedule/build.hpp"
#include "schedule/communication.hpp"
#include "schedule/text.hpp"
#include "schedule/timeline.hpp"

namespace pipefill {
namespace {

Nanoseconds ns(std::int64_t value) { return Nanoseconds{value}; }

/// GPipe P=2 M=2: stage 0 F 1, B 2; stage 1 F 3, B 1. Worked out on paper:
///   stage 0: F0 0-1, F1 1-2, wait 2-8, B0 8-10, B1 10-12
///   stage 1: wait 0-1, F0 1-4, F1 4-7, B0 7-8, B1 8-9
struct Uneven {
  Schedule schedule = with_bubbles(with_communication(build_schedule("gpipe", 2, 2), Replicas::several));
  CostModel costs = uniform_costs(schedule, ns(1), ns(1), ns(1));
  Uneven() {
    costs.chunks[1].forward = ns(3);
    costs.chunks[1].backward_weight = ns(0);
  }
  TimedInstruction timed(const Timeline& timeline, int stage, const std::string& text) const {
    const Program& program = schedule.programs[static_cast<std::size_t>(stage)];
    for (std::size_t index = 0; index < program.size(); ++index) {
      if (to_text(program[index]) == text) return timeline.stages[static_cast<std::size_t>(stage)].instructions[index];
    }
    ADD_FAILURE() << text;
    return {};
  }
};

std::string to_text(const std::vector<TimedBubble>& bubbles) {
  std::string text;
  for (const TimedBubble& bubble : bubbles) {
    if (bubble.duration() == ns(0)) continue;
    text += std::string(to_text(bubble.why)) + ' ' + std::to_string(bubble.start.count()) + '-' +
            std::to_string(bubble.end.count()) + ' ';
  }
  return text;
}

TEST(Timeline, UnevenStagesByHand) {
  const Uneven uneven;
  const Timeline timeline = price(uneven.schedule, uneven.costs);
  EXPECT_EQ(timeline.makespan, ns(12));
  EXPECT_EQ(to_text(timeline.stages[0].bubbles), "cool_down 2-8 ");
  EXPECT_EQ(to_text(timeline.stages[1].bubbles), "warm_up 0-1 step_boundary 9-12 ");
  EXPECT_EQ(timeline.stages[0].busy, ns(6));
  EXPECT_EQ(timeline.stages[1].busy, ns(8));
  EXPECT_DOUBLE_EQ(timeline.bubble_fraction, 10.0 / 24.0);
  EXPECT_DOUBLE_EQ(timeline.device_span_bubble_fraction, 1.0 - 7.0 / 12.0);
  EXPECT_EQ(uneven.timed(timeline, 1, "1F1").start, ns(4));
  EXPECT_EQ(uneven.timed(timeline, 0, "0B1").end, ns(12));
}

TEST(Timeline, SlackByHand) {
  const Uneven uneven;
  const Timeline timeline = price(uneven.schedule, uneven.costs);
  EXPECT_EQ(uneven.timed(timeline, 0, "0F0").slack, ns(0));
  EXPECT_EQ(uneven.timed(timeline, 0, "0F1").slack, ns(2));  // ends at 2, needed on stage 1 at 4
  EXPECT_EQ(uneven.timed(timeline, 1, "1F1").slack, ns(0));
  EXPECT_EQ(uneven.timed(timeline, 1, "1B1").slack, ns(1));  // ends at 9, needed on stage 0 at 10
  EXPECT_EQ(uneven.timed(timeline, 0, "0B1").slack, ns(0));
}

// With one microbatch every instruction is one cost: growing it by its slack changes nothing, by one more it does.
TEST(Timeline, SlackIsHowMuchLaterAnInstructionMayEnd) {
  const Schedule schedule = parse_schedule(
      "schedule mine microbatches 1\nstage_of_chunk 0 1 2\n"
      "stage 0: 0F0 0I0 0W0\nstage 1: 1F0 1I0 1W0\nstage 2: 2F0 2I0 2W0\n");
  std::mt19937 random(7);
  std::uniform_int_distribution<int> any(1, 40);
  int with_slack = 0;
  for (int round = 0; round < 100; ++round) {
    CostModel costs = uniform_costs(schedule, ns(0), ns(0), ns(0));
    for (ChunkCost& chunk : costs.chunks) {
      chunk.forward = ns(any(random)), chunk.backward_input = ns(any(random)), chunk.backward_weight = ns(any(random));
    }
    costs.hop = ns(any(random));
    const Timeline timeline = price(schedule, costs);
    for (std::size_t stage = 0; stage < 3; ++stage) {
      const auto grown = [&](std::size_t index, Nanoseconds by) {
        CostModel changed = costs;
        ChunkCost& chunk = changed.chunks[stage];
        (index == 0 ? chunk.forward : index == 1 ? chunk.backward_input : chunk.backward_weight) += by;
        return price(schedule, changed).makespan;
      };
      for (std::size_t index = 0; index < 3; ++index) {
        const Nanoseconds slack = timeline.stages[stage].instructions[index].slack;
        with_slack += slack > ns(0);
        EXPECT_EQ(grown(index, slack), timeline.makespan);
        EXPECT_EQ(grown(index, slack + ns(1)), timeline.makespan + ns(1));
      }
    }
  }
  EXPECT_GT(with_slack, 50);
}

// GPipe with equal stages: the ramp crosses P-1 hops forwards and P-1 backwards, everything else hides behind compute.
TEST(Timeline, HopsLengthenTheRamp) {
  for (int stages : {2, 4, 7}) {
    for (int microbatches : {1, 3, 8}) {
      const Schedule schedule = with_communication(build_schedule("gpipe", stages, microbatches), Replicas::one);
      CostModel costs = uniform_costs(schedule, ns(10), ns(10), ns(10));
      costs.hop = ns(3);
      const int ramp = microbatches + stages - 1;
      EXPECT_EQ(price(schedule, costs).makespan, ns(ramp * 10 + ramp * 20 + 2 * (stages - 1) * 3));
    }
  }
}

TEST(Timeline, EveryBubbleSlotIsListedAlsoWhenItLastsNoTime) {
  const Uneven uneven;
  const Timeline timeline = price(uneven.schedule, uneven.costs);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    std::vector<int> slots, listed;
    const Program& program = uneven.schedule.programs[stage];
    for (int index = 0; index < static_cast<int>(program.size()); ++index) {
      if (std::holds_alternative<Bubble>(program[static_cast<std::size_t>(index)])) slots.push_back(index);
    }
    for (const TimedBubble& bubble : timeline.stages[stage].bubbles) {
      if (bubble.slot < 0) continue;
      listed.push_back(bubble.slot);
      const TimedInstruction& timed = timeline.stages[stage].instructions[static_cast<std::size_t>(bubble.slot)];
      EXPECT_EQ(timed.start, bubble.start);
      EXPECT_EQ(timed.end, bubble.end);
    }
    EXPECT_EQ(listed, slots);
  }
}

// Stage 1 ends its backwards at 9, reduces until 14; stage 0 at 12 until 14. Then the optimizers: 4 and 1.
TEST(Timeline, ReductionsAndOptimizer) {
  Uneven uneven;
  uneven.costs.chunks[0].reduction = ns(2);
  uneven.costs.chunks[1].reduction = ns(4);
  uneven.costs.stages[0].optimizer = ns(4);
  uneven.costs.stages[1].optimizer = ns(1);
  const Timeline timeline = price(uneven.schedule, uneven.costs);
  EXPECT_EQ(to_text(timeline.stages[0].bubbles), "cool_down 2-8 collective 12-14 ");
  EXPECT_EQ(to_text(timeline.stages[1].bubbles),
            "warm_up 0-1 collective 9-13 step_boundary 13-14 step_boundary 15-18 ");
  EXPECT_EQ(timeline.makespan, ns(18));
  for (const StageTimeline& stage : timeline.stages) EXPECT_EQ(stage.busy + stage.idle, ns(18));
}

TEST(Timeline, BusyAndBubblesAddUpForAnyCosts) {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> any(0, 1000);
  for (int round = 0; round < 200; ++round) {
    const int stages = 1 + any(random) % 8, microbatches = 1 + any(random) % 12;
    Schedule schedule = with_communication(
        build_schedule(schedule_names()[static_cast<std::size_t>(any(random) % 2)], stages, microbatches),
        any(random) % 2 ? Replicas::one : Replicas::several);
    if (any(random) % 2) schedule = with_bubbles(schedule);
    CostModel costs = uniform_costs(schedule, ns(0), ns(0), ns(0));
    for (ChunkCost& chunk : costs.chunks) {
      chunk.forward = ns(any(random)), chunk.backward_input = ns(any(random));
      chunk.backward_weight = ns(any(random)), chunk.reduction = ns(any(random));
      EXPECT_EQ(chunk.backward(), chunk.backward_input + chunk.backward_weight);
    }
    for (StageCost& stage : costs.stages) stage.optimizer = ns(any(random));
    costs.hop = ns(any(random));
    const Timeline timeline = price(schedule, costs);
    for (const StageTimeline& stage : timeline.stages) {
      EXPECT_EQ(stage.busy + stage.idle, timeline.makespan);
      Nanoseconds before{0};
      for (const TimedBubble& bubble : stage.bubbles) {
        EXPECT_LE(before, bubble.start);
        EXPECT_LE(bubble.start, bubble.end);
        before = bubble.end;
      }
      for (const TimedInstruction& timed : stage.instructions) EXPECT_GE(timed.slack, ns(0));
    }
  }
}

// The first stage of 1F1B holds P microbatches, the last one (users ran out of memory there with balanced layers).
TEST(Timeline, PeakMemoryFollowsTheScheduleStageByStage) {
  const Schedule schedule = build_schedule("1f1b", 4, 8);
  CostModel costs = uniform_costs(schedule, ns(1), ns(1), ns(1));
  for (std::size_t chunk = 0; chunk < 4; ++chunk)
    costs.chunks[chunk].activations = Bytes{100 + 10 * std::int64_t(chunk)};
  for (StageCost& stage : costs.stages) stage.fixed = Bytes{7};
  const Timeline timeline = price(schedule, costs);
  const std::int64_t expected[] = {4 * 100, 3 * 110, 2 * 120, 1 * 130};
  for (std::size_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(timeline.stages[stage].peak_microbatches, 4.0 - static_cast<double>(stage));
    EXPECT_EQ(timeline.stages[stage].peak_activations, Bytes{expected[stage]});
    EXPECT_EQ(timeline.stages[stage].peak_memory, Bytes{expected[stage] + 7});
  }
}

// A split backward gives the activations back at its weight part; two chunks on a stage count as halves.
TEST(Timeline, ActivationsAreHeldUntilTheWeightPart) {
  const Schedule schedule = parse_schedule(
      "schedule mine microbatches 2\nstage_of_chunk 0 0\nstage 0: 0F0 1F0 1I0 0F1 1W0 1F1 1B1 0B1 0B0\n");
  const Timeline timeline = price(schedule, uniform_costs(schedule, ns(1), ns(1), ns(1)));
  EXPECT_EQ(timeline.stages[0].peak_microbatches, 1.5);
}

TEST(Timeline, RefusesCostsOfAnotherShape) {
  const Schedule schedule = build_schedule("1f1b", 4, 8);
  EXPECT_THROW(price(schedule, uniform_costs(build_schedule("1f1b", 2, 8), ns(1), ns(1), ns(1))), ScheduleError);
}

}  // namespace
}  // namespace pipefill
