// fill/slowdown, fill/guard: the blocks against their definition, the controller against simulated main jobs.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "fill/guard.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

TEST(BlockSchedule, TakesItsShareInPairsOfWholeNeighbouringBlocks) {
  for (const double audit : {0.5, 0.3, 0.1, 0.02}) {
    const BlockSchedule schedule({.first_step = 21, .block = 5, .audit = audit});
    for (std::int64_t step = 1; step < 21; ++step) EXPECT_EQ(schedule.at(step).mode, StepMode::unfilled);
    std::map<std::int64_t, std::map<StepMode, std::vector<std::int64_t>>> pairs;
    int unfilled = 0;
    constexpr int kSteps = 50'000;
    for (std::int64_t step = 21; step < 21 + kSteps; ++step) {
      const BlockSchedule::Step at = schedule.at(step);
      unfilled += at.mode == StepMode::unfilled ? 1 : 0;
      if (at.pair >= 0) pairs[at.pair][at.mode].push_back(step);
    }
    EXPECT_NEAR(unfilled / static_cast<double>(kSteps), audit, 0.02 * audit + 0.0005);
    EXPECT_NEAR(schedule.unfilled_share(), audit, 0.02 * audit);
    pairs.erase(std::prev(pairs.end()));  // may be cut off
    for (auto& [pair, sides] : pairs) {
      // Three filled, five unfilled, two filled, one after the other.
      const auto first = sides[StepMode::filled].front();
      ASSERT_EQ(sides[StepMode::filled],
                (std::vector<std::int64_t>{first, first + 1, first + 2, first + 8, first + 9}));
      ASSERT_EQ(sides[StepMode::unfilled],
                (std::vector<std::int64_t>{first + 3, first + 4, first + 5, first + 6, first + 7}));
    }
  }
  EXPECT_EQ(BlockSchedule({.first_step = 3, .audit = 0}).mode(3), StepMode::filled);
  EXPECT_EQ(BlockSchedule({.first_step = 3, .audit = 0}).unfilled_share(), 0);
}

TEST(SlowdownMeter, ALinearDriftCancels) {
  const BlockSchedule schedule({.first_step = 1, .block = 10, .audit = 0.5});
  SlowdownMeter meter(schedule);
  double level = 0.1;  // 1 % more with every block
  for (std::int64_t step = 1; step <= 4000; ++step, level += 0.0001)
    meter.step(step, from_seconds(level * (schedule.mode(step) == StepMode::filled ? 1.02 : 1.0)), schedule.mode(step));
  EXPECT_EQ(meter.estimate().pairs, 199);  // of 200, the last one is cut off
  EXPECT_NEAR(meter.estimate().median, 0.02, 0.0005);
}

TEST(SlowdownMeter, DisturbedStepsMayBeLeftOut) {
  const BlockSchedule schedule({.first_step = 1, .block = 10, .audit = 0.5});
  SlowdownMeter meter(schedule);
  int pairs = 0;
  for (std::int64_t step = 1; step <= 4000; ++step) {
    if (step % 50 == 0) continue;               // a checkpoint
    if (step >= 1011 && step < 1017) continue;  // too much of a block
    const auto pair = meter.step(step, schedule.mode(step) == StepMode::filled ? 102ms : 100ms, schedule.mode(step));
    if (pair) {
      ++pairs;
      EXPECT_NEAR(pair->slowdown, 0.02, 1e-9);
      EXPECT_EQ(pair->unfilled_step, 100ms);
    }
  }
  EXPECT_EQ(pairs, 198);
  EXPECT_EQ(meter.slowdowns().size(), 198U);
}

TEST(SlowdownMeter, APairWithoutFillWorkSaysNothing) {
  const BlockSchedule schedule({.first_step = 1, .block = 10, .audit = 0.5});
  SlowdownMeter meter(schedule);
  for (std::int64_t step = 1; step <= 2000; ++step) {
    const bool has_work = step > 1000;  // a job comes
    meter.step(step, 100ms, has_work ? schedule.mode(step) : StepMode::unfilled);
    if (!has_work) {
      EXPECT_EQ(meter.estimate().pairs, 0) << step;
    }
  }
  EXPECT_GE(meter.estimate().pairs, 48);
  EXPECT_LE(meter.estimate().pairs, 50);
}

/// A main job of 200 ms steps with four bubbles of 10 ms, whose slowdown depends on the guard.
struct MainJob {
  std::function<double(std::int64_t pair, Nanoseconds guard)> slowdown;
  double noise = 0.01;  ///< of one pair
  unsigned seed = 1;
  bool outliers = false;  ///< the noise has the tails of Student's t with two degrees of freedom
};

struct Outcome {
  GuardController controller;
  std::vector<double> true_slowdown;  ///< by pair
  std::vector<Nanoseconds> guard;
  int suspended = 0;  ///< pairs without fill work
  double mean_slowdown(std::size_t first, std::size_t last) const {
    double sum = 0;
    for (std::size_t i = first; i < last; ++i) sum += true_slowdown[i];
    return sum / static_cast<double>(last - first);
  }
};

Outcome simulate(const MainJob& main_job, int pairs, GuardSettings settings = {}) {
  std::mt19937 random(main_job.seed);
  std::normal_distribution<> normal;
  std::student_t_distribution<> student(2);
  Outcome made{GuardController(settings), {}, {}};
  for (int pair = 0; pair < pairs; ++pair) {
    const bool sold = !made.controller.suspended();
    made.true_slowdown.push_back(sold ? main_job.slowdown(pair, made.controller.guard()) : 0);
    made.guard.push_back(made.controller.guard());
    made.suspended += sold ? 0 : 1;
    const double noise = main_job.noise * (main_job.outliers ? student(random) : normal(random));
    made.controller.pair({made.true_slowdown.back() + noise, 200ms}, 4, 10ms);
  }
  return made;
}

double overruns(double without_guard, Nanoseconds guard) {
  return without_guard * std::exp(-to_milliseconds(guard) / 0.3);
}

TEST(Guard, NoSlowdownNoGuardToSpeakOf) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Outcome out = simulate({[](auto, auto) { return 0.0; }, 0.01, seed}, 1000);
    for (const Nanoseconds guard : out.guard) ASSERT_LT(guard, 300us) << seed;  // 3 % of a bubble
    EXPECT_LE(out.controller.guard(), 50us) << seed;
    EXPECT_TRUE(out.controller.holds()) << seed;
  }
}

TEST(Guard, OverrunsAreGuardedAgainstAndTheUpperEndComesUnderTheLimit) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const MainJob main_job{[](auto, Nanoseconds guard) { return overruns(0.04, guard); }, 0.01, seed};
    const Outcome out = simulate(main_job, 600);
    EXPECT_LT(out.mean_slowdown(30, 600), 0.01) << seed;
    EXPECT_LT(out.true_slowdown.back(), 0.01) << seed;
    EXPECT_LT(out.controller.guard(), 2ms) << seed << ": no more than it takes";
    // Once the guard has settled, the interval shows it.
    int held = 0;
    SlowdownEstimate estimate;
    GuardController controller({.start = out.controller.guard()});
    std::mt19937 random(seed + 100);
    std::normal_distribution<> noise(0, 0.01);
    for (int pair = 0; pair < 256; ++pair) {
      controller.pair({overruns(0.04, controller.guard()) + noise(random), 200ms}, 4, 10ms);
      estimate = controller.estimate();
      held += estimate.high <= 0.01 ? 1 : 0;
    }
    EXPECT_GT(held, 0) << seed << " " << estimate.median << " " << estimate.high;
  }
}

TEST(Guard, AStepInTheSlowdownIsAnsweredWithinAFewPairs) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const MainJob main_job{
        [](std::int64_t pair, Nanoseconds guard) { return overruns(pair < 300 ? 0.002 : 0.08, guard); }, 0.005, seed};
    const Outcome out = simulate(main_job, 600);
    EXPECT_GT(out.true_slowdown[300], 0.02) << seed;
    EXPECT_LT(out.mean_slowdown(320, 600), 0.01) << seed;
  }
}

TEST(Guard, WhatNoGuardCuresSuspendsFillingAndIsTriedAgainRarely) {
  // Fill work that spoils the caches: 5 % whatever the guard.
  const Outcome out = simulate({[](auto, auto) { return 0.05; }}, 3000);
  int tries = 0;
  for (std::size_t pair = 0; pair < out.true_slowdown.size(); ++pair) tries += out.true_slowdown[pair] > 0 ? 1 : 0;
  EXPECT_LT(out.mean_slowdown(100, 3000), 0.005);
  EXPECT_LT(tries, 300);
  // It stops spoiling them: filling comes back.
  const MainJob reformed{[](std::int64_t pair, auto) { return pair < 100 ? 0.05 : 0.0; }};
  EXPECT_LT(simulate(reformed, 4000).controller.guard(), 5ms);
}

TEST(Guard, NoiseAloneSuspendsItRarely) {
  // Busy machines: pairs scatter by 5 to 30 %, with outliers of any size.
  for (const double noise : {0.05, 0.1, 0.3})
    for (const bool outliers : {false, true}) {
      int suspended = 0;
      Nanoseconds guards{0};
      for (unsigned seed = 1; seed <= 20; ++seed) {
        const Outcome out = simulate({[](auto, auto) { return 0.0; }, noise, seed, outliers}, 2000);
        suspended += out.suspended;
        for (const Nanoseconds guard : out.guard) guards += std::min<Nanoseconds>(guard, 10ms);
      }
      EXPECT_LT(suspended, 0.1 * 20 * 2000) << noise << outliers;
      EXPECT_LT(guards / (20 * 2000), noise <= 0.1 ? 2ms : 4ms) << noise << outliers << ": of bubbles of 10 ms";
    }
}

TEST(Guard, ASuspendedOneIsTriedAgainHoweverLargeTheNoise) {
  // Fill work is far too expensive at first, and the bubbles scatter; then it costs nothing, in any noise.
  for (const double noise : {0.01, 0.1, 0.5}) {
    GuardController controller({});
    std::mt19937 random(1);
    std::normal_distribution<> normal(0, 1);
    std::uniform_int_distribution<> longest_us(9'000, 11'000);
    const auto pair = [&](double slowdown, double scatter) {
      return controller.pair({slowdown + scatter * normal(random), 200ms}, 4,
                             std::chrono::microseconds(longest_us(random)));
    };
    int moves = 0;
    for (int i = 0; i < 200; ++i) moves += pair(controller.suspended() ? 0 : 0.5, 0.01) == GuardMove::suspended ? 1 : 0;
    ASSERT_TRUE(controller.suspended());
    EXPECT_GE(moves, 1);
    EXPECT_LE(moves, 3) << "told when it happens, not at every pair";
    EXPECT_GT(controller.cause().slowdown, 0.1) << "why";
    EXPECT_GE(controller.cause().pairs, 3);
    int tries = 0, waited = 0, longest_wait = 0;
    for (int i = 0; i < 3000; ++i) {
      const bool was = controller.suspended();
      pair(0, noise);
      waited = controller.suspended() ? waited + 1 : 0;
      tries += was && !controller.suspended() ? 1 : 0;
      longest_wait = std::max(longest_wait, waited);
    }
    EXPECT_GE(tries, 1) << noise;
    EXPECT_LE(longest_wait, 512) << noise;
  }
}

}  // namespace
}  // namespace pipefill
