// Drawings against golden files (tests/golden/*.txt). To accept a change: test_schedule --update-golden, then read the
// diff.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "schedule/build.hpp"
#include "schedule/draw.hpp"
#include "schedule/forward_only.hpp"
#include "schedule/text.hpp"

namespace pipefill {
namespace {

constexpr Nanoseconds kUnit{1};

std::string unit_drawing(const Schedule& schedule) {
  const CostModel costs = uniform_costs(schedule, kUnit, kUnit, kUnit);
  return draw(schedule, costs, price(schedule, costs), 200);
}

void expect_golden(const std::string& name, const std::string& drawing) {
  const std::string path = PIPEFILL_SOURCE_DIR "/tests/golden/" + name + ".txt";
  if (std::getenv("PIPEFILL_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << drawing;
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(drawing, golden.str()) << path;
}

TEST(Draw, MatchesTheGoldenFiles) {
  for (const std::string& name : schedule_names()) {
    for (const auto& [stages, microbatches] : {std::pair{1, 3}, {2, 8}, {4, 2}, {4, 8}, {4, 12}, {8, 3}}) {
      expect_golden(name + "_p" + std::to_string(stages) + "_m" + std::to_string(microbatches),
                    unit_drawing(build_schedule(name, stages, microbatches)));
    }
  }
  expect_golden("forward_only_p3_m4", unit_drawing(forward_only(3, 4)));
}

// The figure of the design, word for word, independent of the golden files.
TEST(Draw, DrawsTheFigureOfTheDesign) {
  EXPECT_EQ(
      unit_drawing(build_schedule("1f1b", 4, 8)),
      "1F1B   P=4 M=8                       F = 1, B = 2 units, dots = bubble, fraction (P-1)/(M+P-1) = 0.2727\n"
      "stage 0 |F0 F1 F2 F3 ..................B0----F4 B1----F5 B2----F6 B3----F7 B4----...B5----...B6----...B7----|\n"
      "stage 1 |...F0 F1 F2 ............B0----F3 B1----F4 B2----F5 B3----F6 B4----F7 B5----...B6----...B7----......|\n"
      "stage 2 |......F0 F1 ......B0----F2 B1----F3 B2----F4 B3----F5 B4----F6 B5----F7 B6----...B7----............|\n"
      "stage 3 |.........F0 B0----F1 B1----F2 B2----F3 B3----F4 B4----F5 B5----F6 B6----F7 "
      "B7----..................|\n");
}

TEST(Draw, ShowsSplitBackwardsAndTheChunkOfAStage) {
  const Schedule schedule = parse_schedule(
      "schedule mine microbatches 1\nstage_of_chunk 0 1 0\n"
      "stage 0: 0F0 2F0 2I0 2W0 0B0\nstage 1: 1F0 1I0 1W0\n");
  EXPECT_EQ(unit_drawing(schedule),
            "MINE   P=2 M=1                       F = 1, B = 2, I = 1, W = 1 units, dots = bubble, fraction 0.3571\n"
            "stage 0 |F0.0 .....F0.1 I0.1-W0.1=B0.0------|\n"
            "stage 1 |.....F0   ..........I0---W0===.....|\n");
}

TEST(Draw, RealCostsFitTheWidth) {
  const Schedule schedule = build_schedule("1f1b", 4, 32);
  CostModel costs = uniform_costs(schedule, Nanoseconds{1'234'567}, Nanoseconds{1'500'001}, Nanoseconds{1'300'003});
  costs.chunks[3].forward = Nanoseconds{2'000'000};
  const std::string drawing = draw(schedule, costs, price(schedule, costs), 100);
  std::istringstream lines(drawing);
  std::string line;
  std::getline(lines, line);
  EXPECT_NE(line.find("F = 1.4 ms, B = 2.8 ms on average"), std::string::npos) << line;
  for (int stage = 0; stage < 4; ++stage) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(line.size(), 100u) << line;
    EXPECT_TRUE(line.starts_with("stage " + std::to_string(stage) + " |")) << line;
    EXPECT_TRUE(line.ends_with("|")) << line;
  }
}

}  // namespace
}  // namespace pipefill
