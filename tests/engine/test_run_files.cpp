// engine: status.json, metrics.jsonl, the control word and the step line.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <string>
#include <thread>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "engine/control.hpp"
#include "engine/metrics.hpp"
#include "engine/progress.hpp"
#include "engine/run_directory.hpp"
#include "engine/run_reporter.hpp"
#include "engine/status_file.hpp"

namespace pipefill {
namespace {

class RunFiles : public ::testing::Test {
 protected:
  std::string text(const std::filesystem::path& path) {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
  pipefill::TemporaryDirectory directory_;
  RunDirectory run_{directory_.path()};
};

TEST_F(RunFiles, StatusComesBackAsWritten) {
  RunStatus status;
  status.phase = RunPhase::stopped;
  status.step = 12, status.steps = 100, status.attempt = 3;
  status.eta = from_seconds(2.5);
  status.last_checkpoint = 10;
  status.reason = "walltime";
  status.exit_code = 75;
  status.host = "node7", status.pid = 4711;
  write_status(run_, status);
  const RunStatus back = read_status(run_);
  EXPECT_EQ(back.phase, RunPhase::stopped);
  EXPECT_EQ(back.step, 12);
  EXPECT_EQ(back.attempt, 3);
  EXPECT_EQ(back.eta, from_seconds(2.5));
  EXPECT_EQ(back.last_checkpoint, 10);
  EXPECT_EQ(back.reason, "walltime");
  EXPECT_EQ(back.exit_code, 75);
  EXPECT_EQ(back.host, "node7");
}

TEST_F(RunFiles, MissingAndDamagedStatusAreToldApart) {
  try {
    read_status(run_);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ExitCode::missing_input);
  }
  std::ofstream(run_.status()) << "{\"state\": \"running\"";
  try {
    read_status(run_);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ExitCode::damaged_data);
  }
}

TEST_F(RunFiles, ARunningStatusOfADeadProcessIsStale) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  RunStatus status;
  status.phase = RunPhase::running, status.host = host, status.pid = getpid();
  EXPECT_FALSE(is_stale(status));
  status.pid = 0x3fffffff;  // above any pid_max
  EXPECT_TRUE(is_stale(status));
  status.host = "elsewhere";
  EXPECT_FALSE(is_stale(status)) << "another host's processes cannot be judged from here";
}

TEST_F(RunFiles, WhatIsQueuedDoesNotWriteOverAnEnd) {
  RunStatus running, failed;
  running.phase = RunPhase::running, failed.phase = RunPhase::failed;
  running.attempt = failed.attempt = 2;
  StatusFile mine(run_), of_another_rank(run_);
  mine.write(running);
  EXPECT_EQ(read_status(run_).phase, RunPhase::running);
  mine.write(failed);
  mine.write(running);
  EXPECT_EQ(read_status(run_).phase, RunPhase::failed);
  of_another_rank.write(running);
  EXPECT_EQ(read_status(run_).phase, RunPhase::failed);
  running.attempt = 3;  // the next start
  of_another_rank.write(running);
  EXPECT_EQ(read_status(run_).phase, RunPhase::running);
}

// A file system that answers slowly must not hold up a step.
TEST_F(RunFiles, TheHaltFileIsLookedForByTheThreadOfTheFiles) {
  Hdf5Thread files;
  StatusFile status(run_);
  RunReporter reporter(run_, status, {}, files, make_null_log());
  EXPECT_FALSE(reporter.asked_to_halt());
  reporter.flush();
  std::ofstream(run_.halt()).flush();
  std::promise<void> answer;
  files.post([held = answer.get_future().share()] { held.wait(); });  // the file system hangs
  const auto ask_for = [&](std::chrono::milliseconds time) {
    for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
      if (reporter.asked_to_halt()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  };
  EXPECT_FALSE(ask_for(std::chrono::milliseconds(1500)));
  answer.set_value();
  EXPECT_TRUE(ask_for(std::chrono::seconds(60)));
}

TEST_F(RunFiles, AnUnfinishedLastLineIsCutOff) {
  std::ofstream(run_.metrics()) << "{\"step\":1}\n{\"step\":2}\n{\"st";
  MetricsFile metrics(run_.metrics());
  EXPECT_EQ(metrics.append({{"step", 3}, {"loss", 0.1}}), "");
  EXPECT_EQ(text(run_.metrics()), "{\"step\":1}\n{\"step\":2}\n{\"loss\":0.1,\"step\":3}\n");
}

TEST_F(RunFiles, ALineThatIsLostIsTold) {
  MetricsFile metrics(run_.metrics());
  std::filesystem::remove(run_.metrics());
  EXPECT_NE(metrics.append({{"step", 1}}).find("removed"), std::string::npos);
  std::filesystem::create_symlink("/dev/full", run_.metrics());
  EXPECT_THROW(MetricsFile{run_.metrics()}, FileError);  // nothing can be cut off there
}

TEST_F(RunFiles, MetricsKeepEveryBitOfALoss) {
  const double loss = 3.0000000000000004;
  {
    MetricsFile metrics(run_.metrics());
    EXPECT_EQ(metrics.append({{"loss", loss}}), "");
  }
  EXPECT_EQ(nlohmann::json::parse(text(run_.metrics()))["loss"].get<double>(), loss);
}

TEST(Control, TheStrongestRequestAndTheLongestTimeWin) {
  const Control none{ControlRequest::none, from_seconds(100)};
  const Control save{ControlRequest::checkpoint, from_seconds(1)};
  const Control stop{ControlRequest::terminate, from_seconds(2)};
  EXPECT_GT(save.encode(), none.encode());
  EXPECT_GT(stop.encode(), save.encode());
  const Control back = Control::decode(stop.encode());
  EXPECT_EQ(back.request, ControlRequest::terminate);
  EXPECT_EQ(back.checkpoint_time, from_seconds(2));
  EXPECT_GT((Control{ControlRequest::terminate, from_seconds(3)}.encode()), stop.encode());
}

TEST(Progress, StepLineCarriesWhatPeopleRead) {
  StepReport report;
  report.step = 120, report.steps = 2000;
  report.loss = 3.21409, report.gradient_norm = 0.7123, report.learning_rate = 3e-4;
  report.step_time = Nanoseconds{412'000'000}, report.tokens = 16384;
  report.bubble_fraction = 0.231, report.eta = from_seconds(3731);
  EXPECT_EQ(step_line(report),
            "step 120/2000 loss 3.2141 gnorm 0.712 lr 3.0e-04 | 412.0 ms 39.8k tok/s | bubble 23.1% | eta 1:02:11");
  report.eta = from_seconds(54.66);
  EXPECT_TRUE(step_line(report).ends_with(" | eta 0:00:55")) << step_line(report);
}

}  // namespace
}  // namespace pipefill
