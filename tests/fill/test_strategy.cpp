// fill/strategy: what each strategy grants in the same bubbles, worked out by hand from what the papers say.
#include <gtest/gtest.h>

#include "fill/strategy.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kFree{1000};
/// Positions 0 (warm_up), 1 (steady), 2 and 3 (cool_down).
const Program kProgram{Bubble{BubbleClass::warm_up}, Bubble{BubbleClass::steady}, Bubble{BubbleClass::cool_down},
                       Bubble{BubbleClass::cool_down}};

/// Twelve steps with bubbles of 30, 4, 50 and 70 ms; then they change to half of that.
struct Stage {
  BubbleModel model{kProgram};
  GrantDecider decider;
  explicit Stage(FillStrategy strategy) : decider({.strategy = strategy, .fill_fraction = 0.5}, model) {
    run(12, 1);
    decider.end_profile();
  }
  void run(int steps, int divisor) {
    for (int step = 0; step < steps; ++step) {
      const Nanoseconds lengths[] = {30ms, 4ms, 50ms, 70ms};
      for (int position = 0; position < 4; ++position) model.record(position, lengths[position] / divisor, kFree);
    }
  }
  Grant at(int position, Nanoseconds elapsed = 0ms, Nanoseconds chunk = 0ms) const {
    return decider.decide(position, 1000ms, 1000ms + elapsed, kFree, chunk);
  }
};

TEST(Strategy, NoneGrantsNothingAndTheUngatedGrantEverything) {
  EXPECT_FALSE(traits_of(FillStrategy::none).runs_jobs);
  EXPECT_EQ(Stage(FillStrategy::none).at(0).gate, Gate::closed);
  for (const FillStrategy strategy : {FillStrategy::naive, FillStrategy::idle_priority}) {
    const Grant grant = Stage(strategy).at(1);
    EXPECT_EQ(grant.gate, Gate::open);
    EXPECT_TRUE(grant.open_at(1h));
  }
  EXPECT_EQ(traits_of(FillStrategy::naive).worker_class, WorkerClass::normal);
  EXPECT_EQ(traits_of(FillStrategy::idle_priority).worker_class, WorkerClass::idle);
}

TEST(Strategy, NobodyGatedSellsBeforeTheProfileIsOver) {
  BubbleModel model(kProgram);
  for (int step = 0; step < 12; ++step) model.record(0, 30ms, kFree);
  for (const FillStrategy strategy : {FillStrategy::freeride, FillStrategy::pipefill, FillStrategy::adaptive})
    EXPECT_EQ(GrantDecider({.strategy = strategy}, model).decide(0, 0ms, 0ms, kFree, 0ms).gate, Gate::closed);
}

TEST(Strategy, FreeRideSellsTheShortestOfItsClassAtItsNextPoll) {
  Stage stage(FillStrategy::freeride);
  const Grant grant = stage.at(3, 3ms);
  EXPECT_EQ(grant.gate, Gate::until_deadline);
  EXPECT_EQ(grant.deadline, 1050ms) << "the shortest cool-down bubble";
  EXPECT_EQ(grant.not_before, 1010ms);
  EXPECT_EQ(grant.on_arrival, OnArrival::run_on);
  EXPECT_EQ(grant.rule.budget(3500us), 10ms);
  EXPECT_EQ(grant.rule.budget(9ms), 20ms) << "10.8 ms rounded up to 10";
  EXPECT_EQ(grant.rule.pause_after, 5ms);
  EXPECT_TRUE(grant.rule.fits(9ms, 1030ms, grant.deadline));
  EXPECT_FALSE(grant.rule.fits(9ms, 1031ms, grant.deadline));
  EXPECT_EQ(stage.at(1, 0ms).gate, Gate::closed) << "4 ms are mostly over before the poll";
  BubbleModel model(kProgram);
  for (int step = 0; step < 12; ++step) model.record(2, 1ms, kFree), model.record(3, 70ms, kFree);
  GrantDecider decider({.strategy = FillStrategy::freeride}, model);
  decider.end_profile();
  EXPECT_EQ(decider.decide(3, 1000ms, 1000ms, kFree, 0ms).deadline, 1070ms) << "one of its class is no bubble to it";
  stage.run(40, 2);
  EXPECT_EQ(stage.at(3).deadline, 1050ms) << "the profile is never looked at again";
}

TEST(Strategy, PipeFillSellsItsFractionOfTheProfileAndNoInnerGaps) {
  Stage stage(FillStrategy::pipefill);
  EXPECT_EQ(stage.at(3).deadline, 1035ms);
  EXPECT_EQ(stage.at(3).on_arrival, OnArrival::run_on);
  EXPECT_EQ(stage.at(3, 36ms).gate, Gate::closed);
  EXPECT_EQ(stage.at(1).gate, Gate::closed);
  stage.decider.set_guard(10ms);
  stage.run(40, 2);
  EXPECT_EQ(stage.at(3).deadline, 1035ms);
  const BubbleCycle cycle = stage.decider.cycle();
  EXPECT_EQ(usable(cycle[3], stage.decider.plan_settings()), 35ms);
  EXPECT_EQ(cycle[1].length, 0ms);
}

TEST(Strategy, AdaptiveFollowsGuardsAndUsesInnerGaps) {
  Stage stage(FillStrategy::adaptive);
  stage.decider.set_guard(1ms);
  EXPECT_EQ(stage.at(3).deadline, 1069ms);
  EXPECT_EQ(stage.at(3).on_arrival, OnArrival::stop);
  EXPECT_EQ(stage.at(3).memory, kFree);
  EXPECT_EQ(stage.at(1).deadline, 1003ms);
  EXPECT_EQ(stage.at(3, 69ms).gate, Gate::closed);
  EXPECT_EQ(stage.at(3, 64ms).gate, Gate::until_deadline);
  EXPECT_EQ(stage.at(3).ask_again, 1070ms);
  EXPECT_EQ(stage.at(3, 75ms).deadline, 1092750us) << "longer than any known: a quarter more, for now";
  EXPECT_EQ(stage.at(3, 75ms, 20ms).gate, Gate::closed) << "too long a chunk for what may end at any time";
  EXPECT_EQ(stage.at(3, 75ms, 20ms).ask_again, 1100ms);
  stage.run(5, 2);
  EXPECT_EQ(stage.at(3).deadline, 1034ms);
  const BubbleCycle cycle = stage.decider.cycle();
  EXPECT_EQ(cycle[1].length, 2ms);
  EXPECT_EQ(1000ms + usable(cycle[3], stage.decider.plan_settings()), stage.at(3).deadline);
}

TEST(Strategy, AdaptiveSellsMoreOfABubbleThatGoesOn) {
  BubbleModel model(kProgram);
  GrantDecider decider({}, model);
  for (int step = 0; step < 32; ++step) model.record(3, step % 2 == 0 ? 50ms : 60ms, kFree);
  decider.end_profile();
  decider.set_guard(1ms);
  const Grant grant = decider.decide(3, 1000ms, 1000ms, kFree, 0ms);
  EXPECT_EQ(grant.deadline, 1049004us) << "a fifth of a chunk over, in half of the bubbles";
  EXPECT_EQ(grant.ask_again, 1050004us);
  EXPECT_EQ(decider.decide(3, 1000ms, 1049500us, kFree, 0ms).gate, Gate::closed) << "it may well end now";
  const Grant more = decider.decide(3, 1000ms, grant.ask_again, kFree, 0ms);
  EXPECT_EQ(more.gate, Gate::until_deadline);
  EXPECT_EQ(more.deadline, 1059ms);
  EXPECT_EQ(more.ask_again, 1060ms);
}

// What is called at every bubble owns no memory that it could ask for.
static_assert(std::is_trivially_copyable_v<BubbleSlotModel> && std::is_trivially_copyable_v<Grant> &&
              std::is_trivially_copyable_v<BubbleBudget> && std::is_trivially_copyable_v<SlotStatistics>);

TEST(Strategy, NamesAreTheDecks) {
  EXPECT_STREQ(strategy_name(FillStrategy::idle_priority), "idle-priority");
  EXPECT_STREQ(strategy_name(FillStrategy::adaptive), "adaptive");
}

}  // namespace
}  // namespace pipefill
