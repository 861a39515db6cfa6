// fill/bubble_model: series of bubbles as runs make them (steady, drifting, with stragglers) against what may be sold.
#include <gtest/gtest.h>

#include <random>

#include "fill/bubble_model.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kFree{1 << 20};
const Program kProgram{Bubble{BubbleClass::warm_up}, Forward{}, Bubble{BubbleClass::cool_down}, Backward{}};

Nanoseconds noisy(double mean_us, std::mt19937& random, double deviation = 0.02) {
  return from_seconds(1e-6 * mean_us * (1 + deviation * std::normal_distribution<>()(random)));
}

TEST(BubbleModel, SlotsAreTheBubblesOfTheProgram) {
  BubbleModel model(kProgram);
  EXPECT_EQ(model.positions(), (std::vector<int>{0, 2}));
  EXPECT_EQ(BubbleModel({Bubble{BubbleClass::step_boundary}, OptimizerStep{}}).positions(), (std::vector<int>{0, 1}));
  EXPECT_EQ(model.why(2), BubbleClass::cool_down);
  EXPECT_EQ(model.statistics(0).expected, 0ns) << "nothing is sold before it was seen";
  model.record(2, 5ms, {100});
  model.record(2, 6ms, {70});
  EXPECT_EQ(model.statistics(2).count, 2);
  EXPECT_EQ(model.statistics(2).shortest, 5ms);
  EXPECT_EQ(model.statistics(2).free_memory, Bytes{70});
  EXPECT_EQ(model.statistics(2).trust, SlotTrust::unknown);
  EXPECT_EQ(model.statistics(0).count, 0);
}

TEST(BubbleModel, SellsNearlyAllAndOverrunsByAShareOfTheFillTime) {
  std::mt19937 random(1);
  BubbleModel model(kProgram);
  double sold = 0, overrun = 0, lengths = 0;
  for (int step = 0; step < 2000; ++step) {
    const Nanoseconds length = noisy(10'000, random, 0.05);
    // As a worker would use it: chunk after chunk, until told that there is nothing to sell or the input is there.
    Nanoseconds at{0};
    for (BubbleSale sale = model.sale(0, at, 300us); at < length; sale = model.sale(0, at, 300us)) {
      while (at < length && at + 300us <= sale.until) at += 300us;
      if (at < length) at = std::max(at, std::min(length, sale.ask_again));
      if (step >= 10 && at > length) overrun += to_milliseconds(at - length);
    }
    const Nanoseconds sellable = model.sale(0, 0ns, 300us).until;
    if (step >= 10) sold += to_milliseconds(std::min(sellable, length)), lengths += to_milliseconds(length);
    model.record(0, length, kFree);
  }
  EXPECT_GT(sold, 0.93 * lengths);
  EXPECT_LT(overrun, 0.015 * lengths);  // 150 us, half of a chunk, would be all that may happen
  EXPECT_GT(overrun, 0.001 * lengths) << "something is risked";
  EXPECT_EQ(model.statistics(0).trust, SlotTrust::stable);
}

/// Steps after a change of level until sold and median are within 10 % of the new one, and stay there.
int steps_to_follow(double before_us, double after_us, unsigned seed) {
  std::mt19937 random(seed);
  BubbleModel model(kProgram);
  for (int step = 0; step < 60; ++step) model.record(0, noisy(before_us, random), kFree);
  int followed = 0;
  for (int step = 1; step <= 40; ++step) {
    model.record(0, noisy(after_us, random), kFree);
    const SlotStatistics slot = model.statistics(0);
    const bool near = std::abs(1e3 * to_milliseconds(model.sale(0, 0ns, 0ns).until) / after_us - 1) < 0.1 &&
                      std::abs(1e3 * to_milliseconds(slot.expected) / after_us - 1) < 0.1 &&
                      std::abs(1e3 * to_milliseconds(slot.median) / after_us - 1) < 0.1;
    if (!near) followed = step;
  }
  return followed + 1;
}

TEST(BubbleModel, HalvedAndDoubledBubblesAreFollowedWithinFiveSteps) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    EXPECT_LE(steps_to_follow(10'000, 5'000, seed), 5) << seed;
    EXPECT_LE(steps_to_follow(10'000, 20'000, seed), 5) << seed;
    EXPECT_LE(steps_to_follow(500, 1'000, seed), 5) << seed;
    EXPECT_LE(steps_to_follow(500, 250, seed), 5) << seed;
  }
}

TEST(BubbleModel, SlowDriftIsFollowedOnTheWay) {
  for (const double rate : {1.02, 1 / 1.02}) {
    std::mt19937 random(5);
    BubbleModel model(kProgram);
    double level = 10'000;
    for (int step = 0; step < 100; ++step, level *= step >= 40 ? rate : 1.0) {
      if (step >= 40) {
        const double sold = 1e3 * to_milliseconds(model.sale(0, 0ns, 0ns).until);
        EXPECT_LT(sold, 1.2 * level) << "sold too long at step " << step;
        EXPECT_GT(sold, 0.6 * level) << "sold too short at step " << step;
      }
      model.record(0, noisy(level, random), kFree);
    }
  }
}

TEST(BubbleModel, AStragglersBubblesAreNotSold) {
  std::mt19937 random(2);
  BubbleModel model(kProgram), untouched(kProgram);
  for (int step = 0; step < 300; ++step) {
    const Nanoseconds length = noisy(10'000, random);
    model.record(0, step % 10 == 9 ? 5 * length : length, kFree);
    if (step % 10 != 9) untouched.record(0, length, kFree);
    EXPECT_LE(model.sale(0, 0ns, 0ns).until, 11ms) << step;
    if (step > 40) {
      EXPECT_LE(model.statistics(0).expected, 1.01 * untouched.statistics(0).expected) << step;
    }
  }
  // One in ten is rare; one in four is a straggler at work, and the slot is told apart.
  EXPECT_EQ(model.statistics(0).trust, SlotTrust::stable);
  for (int step = 0; step < 40; ++step) model.record(0, step % 4 == 0 ? 50ms : noisy(10'000, random), kFree);
  EXPECT_EQ(model.statistics(0).trust, SlotTrust::unstable);
  EXPECT_LE(model.sale(0, 0ns, 0ns).until, 11ms);
}

TEST(BubbleModel, ABubbleThatGoesOnIsSoldByWhatLongerOnesLasted) {
  BubbleModel model(kProgram);
  for (int step = 0; step < 32; ++step) model.record(0, step % 2 == 0 ? 9ms : 11ms, kFree);
  EXPECT_EQ(model.statistics(0).trust, SlotTrust::stable);
  EXPECT_EQ(model.sale(0, 0ns, 1ms).until, 9200us) << "every second one ends at 9 ms";
  EXPECT_EQ(model.sale(0, 0ns, 1ms).ask_again, 9200us);
  EXPECT_EQ(model.sale(0, 8900us, 1ms).until, 8900us) << "the chunk would have to cross 9 ms";
  EXPECT_EQ(model.sale(0, 8900us, 1ms).ask_again, 9ms);
  EXPECT_EQ(model.sale(0, 9200us, 1ms).until, 11ms) << "none of the last few was longer";
  EXPECT_EQ(model.sale(0, 11ms, 1ms).until, 13750us) << "it may well go on as long again as a quarter";
  EXPECT_EQ(model.sale(0, 11ms, 4ms).until, 11ms) << "not as long as such a chunk";
  EXPECT_EQ(model.sale(0, 11ms, 4ms).ask_again, 20ms);
}

TEST(BubbleModel, MemoryIsForgottenToo) {
  BubbleModel model(kProgram);
  model.record(0, 1ms, {10});
  for (int step = 0; step < 31; ++step) model.record(0, 1ms, {1000});
  EXPECT_EQ(model.statistics(0).free_memory, Bytes{10});
  for (int step = 0; step < 33; ++step) model.record(0, 1ms, {1000});
  EXPECT_EQ(model.statistics(0).free_memory, Bytes{1000});
}

}  // namespace
}  // namespace pipefill
