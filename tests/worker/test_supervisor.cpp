// A worker under its supervisor: work in grants only, hard stops, crashes, hangs, limits, retries and quarantine; and
// that state and output come through all of it.
#include <signal.h>
#include <unistd.h>

#include <random>

#include "worker/job_group.hpp"
#include "worker_fixture.hpp"

namespace pipefill::testing {
namespace {

using Faults = WorkerTest;

TEST_F(WorkerTest, RunsAJobInGrantsToItsEnd) {
  const std::string job = make_job("a", "counting", "{chunks: 50, chunk_us: 200}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.start();
  ASSERT_TRUE(supervisor.wait_ready(10s));
  const std::uint64_t serial = supervisor.assign(job, "");
  std::vector<ChunkRecord> records;
  bubbles(supervisor, [&] { return supervisor.drain(records), supervisor.job().state == AssignedState::finished; });
  supervisor.drain(records);
  ASSERT_EQ(records.size(), 50U);
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].chunk, static_cast<std::int64_t>(i));
    EXPECT_EQ(records[i].serial, serial);
    EXPECT_EQ(records[i].outcome, ChunkOutcome::finished);
    EXPECT_EQ(records[i].cost_class, i % 5 == 4 ? 1 : 0);
    EXPECT_GE(records[i].end_ns - records[i].start_ns, 200'000);
    EXPECT_DOUBLE_EQ(records[i].samples, 2.0);
  }
  EXPECT_EQ(content(job + "/result"), std::to_string(expected_result(50)));
  EXPECT_EQ(content(job + "/runs").size(), 50U);
  const JobState state = state_of(job);
  EXPECT_EQ(state.status, JobStatus::finished);
  EXPECT_EQ(state.configuration, "batch=2");
  EXPECT_EQ(state.done, 50);
  EXPECT_GT(state.chunk_time, 50 * 200us);
  EXPECT_GT(state.cpu_time.count(), 0);
}

TEST_F(WorkerTest, NothingRunsWithoutAGrant) {
  const std::string job = make_job("a", "counting", "{chunks: 1000, chunk_us: 100}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "batch=1");
  bubbles(supervisor, [&] { return supervisor.job().done > 5; });
  EXPECT_EQ(supervisor.job().configuration, "batch=1");
  EXPECT_EQ(supervisor.job().chunks, 2000);
  std::this_thread::sleep_for(20ms);
  const std::int64_t done = supervisor.job().done;
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(supervisor.job().done, done);
}

TEST_F(WorkerTest, AChunkThatDoesNotFitIsNotBegun) {
  const std::string job = make_job("a", "counting", "{chunks: 1000, chunk_us: 3000, flops: 1}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  bubbles(supervisor, [&] { return supervisor.job().done >= 5; });  // both cost classes were measured
  std::vector<ChunkRecord> records;
  const auto one = [&](Nanoseconds deadline, Bytes memory) {
    supervisor.grant(deadline, memory);
    for (const Nanoseconds end = now() + 5s; !supervisor.parked() && now() < end;) supervisor.wait_news(end - now());
    const ParkReason reason = supervisor.channel().park_reason();
    supervisor.stop();
    records.clear();
    supervisor.drain(records);
    return reason;
  };
  supervisor.drain(records);
  EXPECT_EQ(one(now() + 1ms, Bytes{1 << 30}), ParkReason::deadline);
  EXPECT_TRUE(records.empty());
  EXPECT_EQ(one(kNoDeadline, Bytes{1 << 19}), ParkReason::memory);
  EXPECT_TRUE(records.empty());
}

TEST_F(WorkerTest, AnUnmeasuredChunkIsTriedInTheEnd) {
  // 1e12 operations are expected to take minutes; no bubble is so long, but the guess may be wrong.
  const std::string job = make_job("a", "counting", "{chunks: 1000000, flops: 1000000000000}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  bubbles(supervisor, [&] { return supervisor.job().state == AssignedState::ready; });
  int grants = 0;
  for (const Nanoseconds limit = now() + 30s; supervisor.job().done == 0 && now() < limit; ++grants) {
    supervisor.grant(now() + 10ms, Bytes{1 << 30});
    supervisor.wait_news(10ms);
    supervisor.stop();
  }
  EXPECT_GT(supervisor.job().done, 0);
}

TEST_F(WorkerTest, AnotherJobTakesItsPlaceAndItGoesOnLater) {
  const std::string a = make_job("a", "counting", "{chunks: 400, chunk_us: 200}");
  const std::string b = make_job("b", "counting", "{chunks: 7}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(a, "");
  bubbles(supervisor, [&] { return supervisor.job().done > 3; });
  supervisor.assign(b, "");
  until_over(supervisor);
  EXPECT_EQ(state_of(b).status, JobStatus::finished);
  EXPECT_EQ(state_of(a).status, JobStatus::submitted);
  EXPECT_GT(state_of(a).done, 3);
  supervisor.assign(a, "batch=1");  // pinned to the first one all the same
  until_over(supervisor, 20ms);
  EXPECT_EQ(content(a + "/result"), std::to_string(expected_result(400)));
  EXPECT_EQ(state_of(a).configuration, "batch=2");
}

TEST_F(WorkerTest, SaveAndDropKeepProgress) {
  const std::string job = make_job("a", "counting", "{chunks: 100000, chunk_us: 100}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  bubbles(supervisor, [&] { return supervisor.job().done > 3; });
  supervisor.save();
  for (const Nanoseconds limit = now() + 10s; content(job + "/result").empty() && now() < limit;)
    std::this_thread::sleep_for(5ms);
  const std::int64_t done = supervisor.job().done;
  EXPECT_EQ(content(job + "/result"), std::to_string(expected_result(done)));
  supervisor.drop();
  for (const Nanoseconds limit = now() + 10s; state_of(job).status != JobStatus::submitted && now() < limit;)
    std::this_thread::sleep_for(5ms);
  EXPECT_EQ(state_of(job).done, done);
  EXPECT_EQ(supervisor.job().state, AssignedState::none);
}

TEST_F(WorkerTest, TwoWorkersNeverRunOneJob) {
  const std::string job = make_job("a", "counting", "{chunks: 100000, chunk_us: 100}");
  Supervisor first(settings(), make_null_log()), second(settings(), make_null_log());
  first.assign(job, "");
  bubbles(first, [&] { return first.job().done > 0; });
  second.assign(job, "");
  bubbles(second, [&] { return second.job().failures > 0; });
  EXPECT_NE(second.job().message.find("another worker runs this job"), std::string::npos) << second.job().message;
  EXPECT_EQ(second.job().done, 0);
}

TEST_F(Faults, KilledWorkerRepeatsAtMostTheChunkInFlight) {
  constexpr int kChunks = 300, kKills = 12;
  const std::string job = make_job("a", "counting", "{chunks: 300, chunk_us: 300}");
  std::minstd_rand random(7);
  int kills = 0;
  {
    Supervisor supervisor(settings(), make_null_log());
    supervisor.assign(job, "");
    while (kills < kKills) {
      const std::int64_t goal = supervisor.job().done + 1 + static_cast<std::int64_t>(random() % 12);
      bubbles(supervisor,
              [&] { return supervisor.job().done >= goal || supervisor.job().state == AssignedState::finished; });
      if (supervisor.job().state == AssignedState::finished) break;
      supervisor.grant(kNoDeadline, Bytes{1 << 30});
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 700));
      const std::int64_t restarts = supervisor.restarts();
      ASSERT_GT(supervisor.worker_pid(), 0);
      ASSERT_EQ(::kill(supervisor.worker_pid(), SIGKILL), 0);
      ++kills;
      supervisor.stop();
      bubbles(supervisor, [&] { return supervisor.restarts() > restarts && supervisor.worker_pid() > 0; });
    }
    until_over(supervisor);
    EXPECT_EQ(supervisor.job().state, AssignedState::finished) << supervisor.job().message;
  }
  EXPECT_EQ(kills, kKills);
  EXPECT_EQ(content(job + "/result"), std::to_string(expected_result(kChunks)));
  const std::size_t runs = content(job + "/runs").size();
  EXPECT_GE(runs, static_cast<std::size_t>(kChunks));
  EXPECT_LE(runs, static_cast<std::size_t>(kChunks + kills));
}

TEST_F(Faults, ALongChunkIsStoppedHardAndGoesOnInTheNextBubble) {
  const std::string job = make_job("a", "counting", "{chunks: 4, fault: slow, fault_at: 2}");
  SupervisorSettings s = settings();
  s.grace = 2ms;
  Supervisor supervisor(s, make_null_log());
  supervisor.assign(job, "");
  std::vector<ChunkRecord> records;
  bubbles(
      supervisor, [&] { return supervisor.drain(records), supervisor.job().state == AssignedState::finished; }, 10ms,
      30ms);
  EXPECT_GE(supervisor.hard_stops(), 2);  // of 60 ms, at most 12 in each bubble
  EXPECT_EQ(content(job + "/runs").size(), 4U) << "it was not begun again";
  ASSERT_EQ(records.size(), 4U);
  EXPECT_GT(records[2].stopped_ns, 2 * 30'000'000);
  EXPECT_EQ(supervisor.job().failures, 0);
}

TEST_F(Faults, AHangIsStoppedAtOnceThenKilledAndQuarantined) {
  const std::string job = make_job("a", "counting", "{chunks: 10, fault: hang, fault_at: 3}");
  SupervisorSettings s = settings();
  s.hang = 100ms;
  Supervisor supervisor(s, make_null_log());
  supervisor.assign(job, "");
  Nanoseconds longest{0};
  bubbles(supervisor, [&] {
    supervisor.grant(kNoDeadline, Bytes{1 << 30});
    supervisor.wait_news(10ms);
    const Nanoseconds before = now();
    supervisor.stop();
    longest = std::max(longest, now() - before);
    return supervisor.job().state == AssignedState::quarantined;
  });
  EXPECT_GT(supervisor.hard_stops(), 0);
  EXPECT_LT(longest, 5s);
  const JobState state = state_of(job);
  EXPECT_EQ(state.status, JobStatus::quarantined);
  EXPECT_EQ(state.failures, 3);
  EXPECT_EQ(state.done, 3);
  EXPECT_NE(state.message.find("chunk 3 did not end"), std::string::npos) << state.message;
}

/// A fault, and a word of the message that must be kept.
struct Fault {
  const char* fault;
  const char* rest;  ///< of the job file
  const char* word;
};

class EveryFault : public WorkerTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(EveryFault, IsRetriedThenQuarantinedAndTheNextJobRuns) {
  const std::string job = make_job(
      "bad", "counting", std::string("{chunks: 6, fault_at: 4, fault: ") + GetParam().fault + "}", GetParam().rest);
  SupervisorSettings s = settings();
  s.hang = 20s;
  Supervisor supervisor(s, make_null_log());
  supervisor.assign(job, "");
  until_over(supervisor, 20ms);
  const JobState state = state_of(job);
  EXPECT_EQ(supervisor.job().state, AssignedState::quarantined);
  EXPECT_EQ(state.status, JobStatus::quarantined);
  EXPECT_EQ(state.failures, 3);
  EXPECT_EQ(state.done, 4);
  // What fills the disk is still there at the second try, which may be ended before it comes to the chunk.
  const std::size_t least = std::string(GetParam().fault) == "disk" ? 1 : 3;
  EXPECT_GE(content(job + "/runs").size(), 4U + least) << "tries of the chunk that fails";
  EXPECT_LE(content(job + "/runs").size(), 4U + 3);
  EXPECT_NE(state.message.find(GetParam().word), std::string::npos) << state.message;

  const std::string good = make_job("good", "counting", "{chunks: 5}");
  supervisor.assign(good, "");
  until_over(supervisor);
  EXPECT_EQ(content(good + "/result"), std::to_string(expected_result(5)));
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryFault,
                         ::testing::Values(Fault{"segv", "", "signal 11"}, Fault{"abort", "", "signal 6"},
                                           Fault{"exit", "", "exit code 0"}, Fault{"kill", "", "signal 9"},
                                           Fault{"throw", "", "signal 6"}, Fault{"fail", "", "told to"},
                                           Fault{"leak", "limits: {memory: 64MiB}", "no memory left"},
                                           Fault{"flood", "limits: {output: 1MiB}", "limits.output"},
                                           Fault{"disk", "limits: {disk: 16MiB}", "limits.disk"},
                                           Fault{"fork", "limits: {processes: 20}",
                                                 JobGroup::may_be_made("pids") ? "cannot fork" : "limits.processes"}),
                         [](const auto& fault) { return std::string(fault.param.fault); });

TEST_F(Faults, OneCrashCostsOneTry) {
  const std::string job = make_job("a", "counting", "{chunks: 6, fault: segv, fault_at: 4, fault_once: 1}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  until_over(supervisor);
  EXPECT_EQ(state_of(job).status, JobStatus::finished);
  EXPECT_EQ(state_of(job).failures, 1);
  EXPECT_EQ(content(job + "/result"), std::to_string(expected_result(6)));
  EXPECT_EQ(supervisor.restarts(), 1);
}

TEST_F(Faults, BackOffDoubles) {
  const std::string job = make_job("a", "counting", "{chunks: 6, fault: fail, fault_at: 0}");
  SupervisorSettings s = settings();
  s.back_off = 100ms;
  Supervisor supervisor(s, make_null_log());
  supervisor.assign(job, "");
  std::vector<Nanoseconds> seen;
  bubbles(supervisor, [&] {
    const AssignedJob now_assigned = supervisor.job();
    if (now_assigned.failures > static_cast<int>(seen.size())) seen.push_back(now());
    return now_assigned.state == AssignedState::quarantined;
  });
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_GE(seen[1] - seen[0], 90ms);
  EXPECT_GE(seen[2] - seen[1], 190ms);
}

TEST_F(Faults, AnInvalidJobIsNotTriedAgain) {
  const std::string job = make_job("a", "counting", "{fault: create}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  until_over(supervisor);
  EXPECT_EQ(supervisor.job().state, AssignedState::failed);
  EXPECT_EQ(state_of(job).status, JobStatus::failed);
  EXPECT_NE(state_of(job).message.find("a bad parameter"), std::string::npos) << state_of(job).message;
}

TEST_F(Faults, AnUnknownConfigurationNamesThoseThereAre) {
  const std::string job = make_job("a", "counting", "{chunks: 3}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "batch=9");
  until_over(supervisor);
  EXPECT_NE(supervisor.job().message.find("batch=2, batch=1"), std::string::npos) << supervisor.job().message;
}

TEST_F(Faults, ADamagedStateIsRefusedAndNotRunOver) {
  const std::string job = make_job("a", "counting", "{chunks: 1000, chunk_us: 100}");
  {
    Supervisor supervisor(settings(), make_null_log());
    supervisor.assign(job, "");
    bubbles(supervisor, [&] { return supervisor.job().done > 2; });
  }
  ASSERT_EQ(::truncate((job + "/state.bin").c_str(), 4100), 0);
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  until_over(supervisor);
  EXPECT_EQ(state_of(job).status, JobStatus::failed);
  EXPECT_NE(state_of(job).message.find("damaged"), std::string::npos) << state_of(job).message;
}

TEST_F(WorkerTest, InProcessRunsTheSameJob) {
  const std::string job = make_job("a", "counting", "{chunks: 20, chunk_us: 100}");
  SupervisorSettings s = settings();
  s.isolation = FillIsolation::in_process;
  Supervisor supervisor(s, make_null_log());
  supervisor.assign(job, "");
  until_over(supervisor);
  EXPECT_EQ(content(job + "/result"), std::to_string(expected_result(20)));
  EXPECT_EQ(state_of(job).status, JobStatus::finished);
  const std::string command = make_job("b", "command", "{argv: [\"true\"]}");
  supervisor.assign(command, "");
  until_over(supervisor);
  EXPECT_NE(supervisor.job().message.find("fill.isolation"), std::string::npos) << supervisor.job().message;
}

TEST_F(WorkerTest, APluginRunsInItsWorker) {
  const std::string job = make_job("a", "plugin", std::string("{library: \"") + PIPEFILL_TEST_PLUGIN + "\"}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  until_over(supervisor);
  EXPECT_EQ(supervisor.job().state, AssignedState::finished) << supervisor.job().message;
  EXPECT_EQ(content(job + "/sum"), "60");
}

}  // namespace
}  // namespace pipefill::testing
