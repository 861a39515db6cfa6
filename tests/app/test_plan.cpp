// pipefill plan as a process: what it prints, what it warns of, how it refuses.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Outcome {
  int exit_code = -1;
  std::string output;  ///< stdout and stderr
  bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};

Outcome plan(const std::string& arguments) {
  const std::string command = std::string(PIPEFILL_PROGRAM) + " plan " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  Outcome outcome;
  std::array<char, 4096> buffer;
  for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.output.append(buffer.data(), n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

/// The words of the row of `stage` in the table, from its number on.
std::vector<std::string> stage_row(const Outcome& outcome, int stage) {
  std::istringstream lines(outcome.output);
  bool in_table = false;
  for (std::string line; std::getline(lines, line);) {
    in_table = in_table || line.starts_with("stage layers");
    if (!in_table || !line.starts_with(std::to_string(stage) + " ")) continue;
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

// Equal stages: two of one layer each and next to nothing in embedding and head give the closed form, 1/(8+1).
TEST(Plan, DrawsTheScheduleAndGivesTheBubbleFractionBesideItsClosedForm) {
  const Outcome outcome = plan("--ranks 2 model.layers=2 model.vocab=64 data.vocab=64 model.channels=512");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(outcome.says("2 stages x 1 replica, 8 microbatches of 4 sequences of 64 tokens")) << outcome.output;
  EXPECT_TRUE(outcome.says("1F1B   P=2 M=8")) << outcome.output;
  EXPECT_TRUE(outcome.says("stage 0 |F0")) << outcome.output;
  EXPECT_TRUE(outcome.says("stage 1 |...")) << outcome.output;
  EXPECT_TRUE(outcome.says("closed form      0.1111")) << outcome.output;
  EXPECT_TRUE(outcome.says("bubble fraction  0.11")) << outcome.output;
  EXPECT_TRUE(outcome.says("Every stage fits into its share of this host's memory")) << outcome.output;
}

// 1F1B keeps P-r microbatches on stage r, GPipe all of them: the first stage is where memory runs out.
TEST(Plan, MicrobatchesInFlightFollowTheSchedule) {
  const Outcome one_f_one_b = plan("--ranks 4 schedule.name=1f1b");
  const Outcome gpipe = plan("--ranks 4 schedule.name=gpipe");
  for (int stage = 0; stage < 4; ++stage) {
    // Sizes are two words: stage layers idle, then five sizes before the microbatches in flight.
    ASSERT_GT(stage_row(one_f_one_b, stage).size(), 13u) << one_f_one_b.output;
    EXPECT_EQ(stage_row(one_f_one_b, stage)[13], std::to_string(4 - stage)) << one_f_one_b.output;
    EXPECT_EQ(stage_row(gpipe, stage)[13], "8") << gpipe.output;
  }
}

TEST(Plan, ShowsTheFillPlanOfTheDecksJobs) {
  const std::string jobs = PIPEFILL_SOURCE_DIR "/inputs/jobs/";
  const Outcome outcome =
      plan("--ranks 2 'fill.jobs=[" + jobs + "score.yaml, " + jobs + "score_b.yaml]' model.channels=512");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(outcome.says("fill plan of the first step, strategy adaptive")) << outcome.output;
  EXPECT_TRUE(outcome.says("score 0 to ")) << outcome.output;
  EXPECT_TRUE(outcome.says("score-b 0 to ")) << outcome.output;
  EXPECT_TRUE(outcome.says("|a") || outcome.says("~")) << "drawn into the bubbles: " << outcome.output;
  const std::size_t at = outcome.output.find("conversion to expect at best  ");
  ASSERT_NE(at, std::string::npos) << outcome.output;
  const double conversion = std::stod(outcome.output.substr(at + 30));
  EXPECT_GT(conversion, 0.5) << "chunks of 1 ms or less in bubbles of several";
  EXPECT_LE(conversion, 1.0);
}

TEST(Plan, WithoutJobsOrWithStrategyNoneThereIsNoFillPlan) {
  const std::string job = "'fill.jobs=[" PIPEFILL_SOURCE_DIR "/inputs/jobs/score.yaml]'";
  EXPECT_FALSE(plan("--ranks 2").says("fill plan"));
  EXPECT_FALSE(plan("--ranks 2 fill.strategy=none " + job).says("fill plan"));
}

TEST(Plan, AJobThatCannotBePlannedIsTold) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("plan-job-" + std::to_string(::getpid()));
  std::ofstream(path) << "name: bad\nkind: score\nwith: {synthetic: 3, layer: 2}\n";
  const Outcome outcome = plan("--ranks 2 fill.jobs=[" + path.string() + "]");
  std::filesystem::remove(path);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(outcome.says("warning: fill job bad will fail: ")) << outcome.output;
  EXPECT_TRUE(outcome.says("did you mean layers")) << outcome.output;
}

TEST(Plan, WarnsOfWhatWillNotFit) {
  const Outcome outcome = plan("--ranks 2 device.memory=1MiB schedule.name=gpipe");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(outcome.says("warning: stage 0 needs ")) << outcome.output;
  EXPECT_TRUE(outcome.says("warning: stage 1 needs ")) << outcome.output;
  EXPECT_TRUE(outcome.says("more than device.memory of 1.0 MiB")) << outcome.output;
  EXPECT_TRUE(outcome.says("schedule.name=1f1b")) << outcome.output;
  EXPECT_TRUE(plan("--ranks 2 device.memory=64GiB").says("Every stage fits into device.memory of 64.0 GiB"));
}

TEST(Plan, WritesEveryInstructionAsCsv) {
  const auto path = std::filesystem::temp_directory_path() / ("pipefill_plan_" + std::to_string(getpid()) + ".csv");
  const Outcome outcome = plan("--ranks 2 schedule.microbatches=1 --csv " + path.string());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::ifstream file(path);
  std::string line, instructions;
  std::getline(file, line);
  EXPECT_EQ(line, "stage,position,instruction,start_ns,end_ns,slack_ns");
  while (std::getline(file, line)) {
    const auto second = line.find(',', line.find(',') + 1) + 1;
    instructions += line.substr(second, line.find(',', second) - second) + ' ';
  }
  EXPECT_EQ(instructions,
            "0RECV_B0<1 0F0 0SEND_F0>1 BUBBLE(cool_down) 0B0 BUBBLE(step_boundary) STEP "
            "1RECV_F0<0 BUBBLE(warm_up) 1F0 1B0 1SEND_B0>0 BUBBLE(step_boundary) STEP ");
  std::filesystem::remove(path);
}

TEST(Plan, RefusesWithItsExitCode) {
  const Outcome no_stages = plan("");
  EXPECT_EQ(no_stages.exit_code, 64);
  EXPECT_TRUE(no_stages.says("--ranks N")) << no_stages.output;
  const Outcome uneven = plan("--ranks 3 parallel.replicas=2");
  EXPECT_EQ(uneven.exit_code, 78);
  EXPECT_TRUE(uneven.says("3 ranks")) << uneven.output;
  const Outcome no_vocab = plan("--ranks 2 data.source=llmc 'data.files=[x.bin]'");
  EXPECT_EQ(no_vocab.exit_code, 78);
  EXPECT_TRUE(no_vocab.says("model.vocab=50257")) << no_vocab.output;
  const Outcome too_many = plan("--ranks 7 model.layers=2");
  EXPECT_EQ(too_many.exit_code, 78);
  const Outcome nowhere = plan("--ranks 2 --csv /nonexistent/x.csv");
  EXPECT_EQ(nowhere.exit_code, 73);
  EXPECT_TRUE(nowhere.says("/nonexistent/x.csv: there is no directory /nonexistent")) << nowhere.output;
  EXPECT_EQ(plan("/nonexistent.yaml --ranks 2").exit_code, 66);
}

}  // namespace
