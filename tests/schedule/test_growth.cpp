// Checking, lowering, pricing and drawing a schedule take a time that grows with its length and no faster.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>

#include "base/error.hpp"
#include "schedule/bubbles.hpp"
#include "schedule/build.hpp"
#include "schedule/communication.hpp"
#include "schedule/draw.hpp"
#include "schedule/forward_only.hpp"
#include "schedule/timeline.hpp"
#include "schedule/validate.hpp"

namespace pipefill {
namespace {

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Processor time of all that `plan` does with a schedule, the least of a few.
double cost(const char* name, int stages, int microbatches) {
  double least = 1e9;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const double start = processor_seconds();
    const Schedule schedule =
        with_bubbles(with_communication(build_schedule(name, stages, microbatches), Replicas::several));
    validate(schedule);
    const CostModel costs = uniform_costs(schedule, Nanoseconds{1}, Nanoseconds{1}, Nanoseconds{1});
    const std::string drawing = draw(schedule, costs, price(schedule, costs), 100);
    EXPECT_FALSE(drawing.empty());
    least = std::min(least, processor_seconds() - start);
  }
  return least;
}

// Quadratic work would take 256 times as long for 16 times the length; linear work 16 times, and caches add to it.
constexpr int kLonger = 16;
constexpr double kAllowed = 4 * kLonger;

TEST(Growth, WithTheMicrobatches) {
  for (const char* name : {"1f1b", "gpipe"})
    EXPECT_LT(cost(name, 2, 512 * kLonger), kAllowed * cost(name, 2, 512)) << name;
}

TEST(Growth, WithTheStages) {
  for (const char* name : {"1f1b", "gpipe"})
    EXPECT_LT(cost(name, 16 * kLonger, 64), kAllowed * cost(name, 16, 64)) << name;
}

TEST(Growth, EndsAtALimitThatIsTold) {
  const auto refusal = [](int stages, int microbatches) -> std::string {
    try {
      (void)build_schedule("1f1b", stages, microbatches);
    } catch (const ScheduleError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(32, kMostMicrobatches), "accepted");
  EXPECT_NE(refusal(33, kMostMicrobatches).find("at most 32768 microbatches, and 1048576 stages times microbatches"),
            std::string::npos);
  EXPECT_NE(refusal(1, kMostMicrobatches + 1).find("too long"), std::string::npos);
  Schedule schedule = forward_only(1, kMostMicrobatches);
  ++schedule.microbatches;
  schedule.programs[0].push_back(Forward{{0}, {kMostMicrobatches}});
  EXPECT_NE(find_violations(schedule).at(0).text.find("has 32769 microbatches, at most 32768 are possible"),
            std::string::npos);
}

}  // namespace
}  // namespace pipefill
