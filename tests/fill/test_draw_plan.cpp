// fill/draw_plan: a pipeline step with fill chunks in its bubbles, as README shows it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "fill/draw_plan.hpp"
#include "schedule/bubbles.hpp"
#include "schedule/build.hpp"
#include "tests/support/content.hpp"

namespace pipefill {
namespace {

constexpr Nanoseconds kUnit{1'000'000};

FillJobInfo job(std::int64_t id, Nanoseconds chunk) {
  FillJobInfo made;
  made.id = id;
  FillConfiguration only;
  only.times = {ChunkTime(chunk)};
  only.chunks.append({.count = 1000, .samples = 1});
  made.configurations = {only};
  return made;
}

/// Job a has chunks of 4 units, job b of 1.
std::string filled_drawing() {
  const Schedule schedule = with_bubbles(build_schedule("1f1b", 4, 8));
  const CostModel costs = uniform_costs(schedule, kUnit, kUnit, kUnit);
  const Timeline timeline = price(schedule, costs);
  const FillJobInfo a = job(1, 4 * kUnit), b = job(2, kUnit);
  const std::vector<const FillJobInfo*> jobs{&a, &b};
  std::vector<DrawnWork> drawn;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const StageTimeline& priced = timeline.stages[static_cast<std::size_t>(stage)];
    const FillPlan plan = plan_shared(jobs, priced_cycle(priced, Bytes{1 << 30}), {});
    const std::vector<DrawnWork> more = drawn_plan(plan, jobs, stage, priced);
    drawn.insert(drawn.end(), more.begin(), more.end());
  }
  return draw(schedule, costs, timeline, 200, drawn);
}

TEST(DrawPlan, MatchesTheGoldenFile) {
  const std::string path = PIPEFILL_SOURCE_DIR "/tests/golden/filled_1f1b_p4_m8.txt", drawing = filled_drawing();
  if (std::getenv("PIPEFILL_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << drawing;
  EXPECT_EQ(drawing, testing::content(path));
}

TEST(DrawPlan, IsTheDrawingInReadme) {
  const std::string readme = testing::content(PIPEFILL_SOURCE_DIR "/README.md");
  std::istringstream lines(filled_drawing());
  std::string line;
  std::getline(lines, line);  // the title
  while (std::getline(lines, line)) EXPECT_NE(readme.find("    " + line + "\n"), std::string::npos) << line;
}

TEST(DrawPlan, LeavesInstructionsAlone) {
  const Schedule schedule = with_bubbles(build_schedule("1f1b", 4, 8));
  const CostModel costs = uniform_costs(schedule, kUnit, kUnit, kUnit);
  const Timeline timeline = price(schedule, costs);
  const std::string plain = draw(schedule, costs, timeline, 200);
  const std::string over = draw(schedule, costs, timeline, 200, {{1, Nanoseconds{0}, kUnit, 33, 'x'}});
  ASSERT_EQ(plain.size(), over.size());
  int drawn = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] == over[i]) continue;
    EXPECT_EQ(plain[i], '.') << i;
    ++drawn;
  }
  EXPECT_EQ(drawn, 9 * 3) << "all dots of stage 1: 9 units of 3 columns";
}

TEST(DrawPlan, TheCycleIsThatOfTheBubblesThatLast) {
  const Schedule schedule = with_bubbles(build_schedule("1f1b", 4, 8));
  const CostModel costs = uniform_costs(schedule, kUnit, kUnit, kUnit);
  const Timeline timeline = price(schedule, costs);
  const BubbleCycle cycle = priced_cycle(timeline.stages[0], Bytes{77});
  Nanoseconds sum{0};
  for (const BubbleBudget& bubble : cycle) {
    EXPECT_GT(bubble.length, Nanoseconds{0});
    EXPECT_EQ(bubble.memory, Bytes{77});
    sum += bubble.length;
  }
  EXPECT_EQ(sum, 9 * kUnit);
}

}  // namespace
}  // namespace pipefill
