// The kind `command`: a program runs in bubbles only, with all it starts, in a clean environment, within its limits.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "fill_jobs/process_tree.hpp"
#include "fill_jobs/program.hpp"
#include "worker/job_group.hpp"
#include "worker_fixture.hpp"

namespace pipefill::testing {
namespace {

using Command = WorkerTest;

/// A shell script as a list for a job file.
std::string shell(const std::string& script) { return "{argv: [/bin/bash, -c, '" + script + "']}"; }

std::vector<ProcessFacts> programs_of(const Supervisor& supervisor) { return descendants(supervisor.worker_pid()); }

TEST_F(Command, RunsUnmodifiedWithItsOutputKept) {
  const std::string job = make_job("a", "command", shell("echo out; echo err >&2; pwd; echo x > made"));
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  until_over(supervisor);
  EXPECT_EQ(supervisor.job().state, AssignedState::finished) << supervisor.job().message;
  EXPECT_EQ(content(job + "/stdout"), "out\n" + job + "\n");
  EXPECT_EQ(content(job + "/stderr"), "err\n");
  EXPECT_EQ(content(job + "/made"), "x\n");
}

TEST_F(Command, ItsGroupEndsWithItAlsoWhenItLeavesProcessesBehind) {
  if (!JobGroup::may_be_made("memory")) GTEST_SKIP() << "no memory cgroup can be made here";
  Supervisor supervisor(settings(), make_null_log());
  for (const char* name : {"a", "b"}) {
    supervisor.assign(make_job(name, "command", shell("setsid sleep 1000 & disown; sleep 0.05"),
                               "limits: {memory: 256MiB, processes: 30}\n"),
                      "");
    until_over(supervisor);
    ASSERT_EQ(supervisor.job().state, AssignedState::finished) << supervisor.job().message;
  }
  const auto group_of_worker = [&] { return content("/proc/" + std::to_string(supervisor.worker_pid()) + "/cgroup"); };
  supervisor.drop();
  const Nanoseconds limit = now() + 30s;
  while (group_of_worker() != content("/proc/self/cgroup") && now() < limit) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(group_of_worker(), content("/proc/self/cgroup"));
}

TEST_F(Command, RunsInGrantsOnlyWithItsChildrenAlsoEscapedOnes) {
  // A child in the group, and one that made a session of its own; each counts as fast as it can.
  const std::string job = make_job(
      "a", "command", shell("(while :; do :; done) & setsid bash -c \"while :; do :; done\" & while :; do :; done"));
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  bubbles(supervisor, [&] { return programs_of(supervisor).size() >= 3; });
  bubbles(supervisor, [first = now()] { return now() > first + 300ms; });  // the helper has had time to find all
  std::this_thread::sleep_for(200ms);
  const auto cpu = [&] {
    Nanoseconds sum{0};
    for (const ProcessFacts& process : programs_of(supervisor)) {
      EXPECT_EQ(process.state, 'T') << process.name.pid;
      sum += process.cpu;
    }
    return sum;
  };
  const Nanoseconds before = cpu();
  EXPECT_GT(before.count(), 0);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(cpu(), before);
  std::vector<ChunkRecord> records;
  bubbles(supervisor, [first = now()] { return now() > first + 200ms; });
  supervisor.drain(records);
  Nanoseconds recorded{0};
  for (const ChunkRecord& record : records) {
    EXPECT_EQ(record.outcome, ChunkOutcome::interrupted);
    recorded += Nanoseconds{record.cpu_ns};
  }
  EXPECT_GT(recorded.count(), 0);
  EXPECT_EQ(supervisor.job().failures, 0);
}

TEST_F(Command, NothingIsLeftWhenItsWorkerIsKilled) {
  const std::string job = make_job("a", "command", shell("setsid sleep 1000 & sleep 1000"));
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  bubbles(supervisor, [&] { return programs_of(supervisor).size() >= 2; });
  const std::vector<ProcessFacts> programs = programs_of(supervisor);
  ::kill(supervisor.worker_pid(), SIGKILL);
  bubbles(supervisor, [&] { return supervisor.restarts() > 0; });
  const auto lives = [](const ProcessFacts& program) {
    ProcessFacts facts;
    return read_process(program.name.pid, facts) && facts.name == program.name && facts.state != 'Z';
  };
  // What was killed may need a processor to be gone.
  for (const Nanoseconds limit = now() + 30s; std::ranges::any_of(programs, lives) && now() < limit;)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(std::ranges::none_of(programs, lives));
}

TEST_F(Command, SeesAFixedEnvironment) {
  ::setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  ::setenv("SLURM_JOB_ID", "77", 1);
  ::setenv("SECRET_TOKEN", "x", 1);
  const std::string job = make_job("a", "command", "{argv: [env], environment: [MINE=1]}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  until_over(supervisor);
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "SLURM_JOB_ID", "SECRET_TOKEN"}) ::unsetenv(name);
  const std::string seen = content(job + "/stdout");
  EXPECT_NE(seen.find("MINE=1"), std::string::npos);
  EXPECT_NE(seen.find("PATH="), std::string::npos);
  for (const char* dropped : {"OMPI_", "SLURM_", "SECRET_TOKEN", "LD_PRELOAD"})
    EXPECT_EQ(seen.find(dropped), std::string::npos) << seen;
}

TEST_F(Command, InheritsNoDescriptorsNoPrivilegesNoSession) {
  const std::string job = make_job("a", "command",
                                   shell("ls /proc/self/fd | wc -l; grep NoNewPrivs /proc/self/status; "
                                         "cat /proc/self/oom_score_adj; ps -o sid= -p $$; ulimit -c"));
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  until_over(supervisor);
  std::istringstream lines(content(job + "/stdout"));
  std::string descriptors, privileges, adjust, session, core;
  std::getline(lines, descriptors);
  std::getline(lines, privileges);
  std::getline(lines, adjust);
  std::getline(lines, session);
  std::getline(lines, core);
  EXPECT_EQ(descriptors, "4");  // 0, 1, 2, and ls's own of the directory
  EXPECT_EQ(privileges, "NoNewPrivs:\t1");
  EXPECT_EQ(adjust, "1000");
  EXPECT_EQ(std::stoi(session), ::getsid(0));
  EXPECT_EQ(core, "0");
}

struct BadEnd {
  const char* name;
  const char* with;
  const char* rest;
  const char* word;
};
class BadEnds : public WorkerTest, public ::testing::WithParamInterface<BadEnd> {};

TEST_P(BadEnds, AreTold) {
  const std::string job = make_job("a", "command", GetParam().with, std::string(GetParam().rest) + "\n");
  SupervisorSettings s = settings();
  s.back_off = 1ms;
  Supervisor supervisor(s, make_null_log());
  supervisor.assign(job, "");
  until_over(supervisor, 20ms);
  const JobState state = state_of(job);
  EXPECT_TRUE(state.status == JobStatus::quarantined || state.status == JobStatus::failed);
  EXPECT_NE(state.message.find(GetParam().word), std::string::npos) << state.message;
}

INSTANTIATE_TEST_SUITE_P(
    Command, BadEnds,
    ::testing::Values(BadEnd{"exit_code", "{argv: [/bin/sh, -c, \"exit 3\"]}", "", "exit code 3"},
                      BadEnd{"signal", "{argv: [/bin/sh, -c, \"kill -SEGV $$\"]}", "", "signal 11"},
                      BadEnd{"missing", "{argv: [no-such-program-here]}", "", "no such program in PATH"},
                      BadEnd{"no_argv", "{directory: x}", "", "with.argv"},
                      BadEnd{"output", "{argv: [/usr/bin/yes]}", "limits: {output: 1MiB}", "limits.output"},
                      BadEnd{"file", "{argv: [/bin/dd, if=/dev/zero, of=big, bs=1M, count=64]}", "limits: {disk: 4MiB}",
                             "limits.disk"},
                      BadEnd{"forks", "{argv: [/bin/bash, -c, \"for i in {1..60}; do sleep 100 & done; wait\"]}",
                             "limits: {processes: 10}", ""}),
    [](const auto& bad) { return std::string(bad.param.name); });

TEST_F(Command, ForkBombStaysWithinItsLimit) {
  const std::string job =
      make_job("a", "command", "{argv: [/bin/bash, -c, \"for i in {1..5000}; do sleep 100 & done; wait\"]}",
               "limits: {processes: 30, tries: 1}\n");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  std::size_t most = 0;
  bubbles(supervisor, [&] {
    most = std::max(most, programs_of(supervisor).size());
    const AssignedState state = supervisor.job().state;
    return state == AssignedState::quarantined || (most >= 30 && state == AssignedState::ready);
  });
  EXPECT_LT(most, 2000U);
}

}  // namespace
}  // namespace pipefill::testing
