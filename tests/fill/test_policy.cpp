// fill/policy: small queues whose right order can be told by hand, and promises (ageing, memory, nobody twice) over
// random ones.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "fill/policy.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

/// `seconds` of work in chunks of 1 ms.
FillJobInfo job(std::int64_t id, int seconds, Nanoseconds arrival = 0s, const std::string& owner = "ann") {
  FillJobInfo made;
  made.id = id;
  made.name = "job-" + std::to_string(id);
  made.owner = owner;
  made.arrival = arrival;
  FillConfiguration only;
  only.name = "only";
  only.times = {ChunkTime(1ms)};
  only.chunks.append({.count = 1000 * seconds, .memory = {10}, .samples = 1});
  made.configurations = {only};
  return made;
}

/// One bubble of `bubble_ms` in a step of 100 ms: `s` seconds of work take s * 100 / bubble_ms seconds.
FillExecutor executor(int stage, int bubble_ms = 50, Bytes memory = {100}) {
  FillExecutor made;
  made.stage = stage;
  made.cycle = {{.position = 3, .why = BubbleClass::warm_up, .length = bubble_ms * 1ms, .memory = memory}};
  made.step_time = 100ms;
  return made;
}

struct Case {
  std::vector<FillJobInfo> jobs;
  std::vector<FillExecutor> executors;
  PolicySettings settings;
  std::map<std::string, Nanoseconds> owner_time{};
  Nanoseconds now = 1000s;

  std::vector<FillDecision> operator()() const {
    std::vector<const FillJobInfo*> queue;
    for (const FillJobInfo& each : jobs) queue.push_back(&each);
    return assign_jobs(queue, executors, owner_time, {}, settings, now);
  }
  std::vector<std::int64_t> order() const {
    std::vector<std::int64_t> ids;
    for (const FillDecision& decision : (*this)()) ids.push_back(decision.job);
    return ids;
  }
};

PolicySettings policy(FillPolicy which) {
  PolicySettings settings;
  settings.policy = which;
  settings.ageing = 1'000'000s;  // next to none
  return settings;
}

using Ids = std::vector<std::int64_t>;

TEST(Policy, EachPolicyPicksItsOwn) {
  Case in{{job(1, 60, 30s, "ann"), job(2, 20, 20s, "ann"), job(3, 40, 10s, "bob")}, {executor(0)}, {}};
  in.settings = policy(FillPolicy::fifo);
  EXPECT_EQ(in.order(), (Ids{3}));
  in.settings = policy(FillPolicy::sjf);
  EXPECT_EQ(in.order(), (Ids{2}));
  in.settings = policy(FillPolicy::fair);
  in.owner_time = {{"ann", 10s}, {"bob", 90s}};
  EXPECT_EQ(in.order(), (Ids{2})) << "ann had less; her earlier job";
  in.settings = policy(FillPolicy::deadline);
  in.jobs[0].deadline = 5000s, in.jobs[2].deadline = 4000s;
  EXPECT_EQ(in.order(), (Ids{3}));
  in.jobs[0].deadline.reset(), in.jobs[2].deadline.reset();
  EXPECT_EQ(in.order(), (Ids{2})) << "no deadlines: sjf below";
  in.settings.below = FillPolicy::fifo;
  EXPECT_EQ(in.order(), (Ids{3}));
  in.settings = policy(FillPolicy::weighted);
  in.settings.weights = {.waiting = 1, .shortness = -10};  // longest first
  EXPECT_EQ(in.order(), (Ids{1}));
  in.jobs[1].priority = 20;
  EXPECT_EQ(in.order(), (Ids{2}));
}

TEST(Policy, MakespanTakesWhatDoesNotEndLast) {
  // Another executor is busy for 100 s: a job of 40 s of work (80 s here) hides behind it, one of 60 s does not.
  Case in{{job(1, 60, 0s), job(2, 40, 5s)}, {executor(0), executor(1)}, policy(FillPolicy::makespan)};
  in.executors[1].room = 0, in.executors[1].busy = 100s;
  EXPECT_EQ(in.order(), (Ids{2}));
}

TEST(Policy, FairServesOwnersInTurnWithinOneCallToo) {
  Case in{{}, {}, policy(FillPolicy::fair)};
  for (int j = 0; j < 6; ++j) in.jobs.push_back(job(j, 10, j * 1s, j < 4 ? "ann" : "bob"));
  for (int e = 0; e < 4; ++e) in.executors.push_back(executor(e));
  int bobs = 0;
  for (const std::int64_t id : in.order()) bobs += id >= 4 ? 1 : 0;
  EXPECT_EQ(bobs, 2);
}

TEST(Policy, OnlyWhatFitsIsPlaced) {
  Case in{{job(1, 10), job(2, 20)}, {executor(0, 50, {5})}, policy(FillPolicy::sjf)};
  EXPECT_TRUE(in().empty()) << "chunks need 10 bytes";
  in.executors = {executor(0, 50, {5}), executor(1, 50, {10})};
  const auto decisions = in();
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].executor, 1);
  EXPECT_EQ(decisions[0].expected, 20s);
  in.executors = {executor(0, 0)};
  EXPECT_TRUE(in().empty()) << "a bubble of no length";
}

TEST(Policy, AJobThatWaitsIsNeverOvertakenForEver) {
  for (const FillPolicy which : {FillPolicy::fifo, FillPolicy::sjf, FillPolicy::makespan, FillPolicy::fair,
                                 FillPolicy::weighted, FillPolicy::deadline}) {
    PolicySettings settings = policy(which);
    settings.ageing = 100s;
    settings.weights = {.shortness = 1};
    // A long job of a greedy owner; every 10 s a short one of somebody new (with a deadline) arrives, one is started.
    const FillJobInfo long_job = job(0, 1000, 0s, "greedy");
    std::vector<FillJobInfo> queue{long_job};
    bool started = false;
    for (int round = 1; round < 60 && !started; ++round) {
      queue.push_back(job(round, 1, round * 10s, "owner-" + std::to_string(round)));
      queue.back().deadline = round * 10s + 50s;
      const Case in{queue, {executor(0)}, settings, {{"greedy", 1000s}}, round * 10s + 1s};
      const Ids chosen = in.order();
      ASSERT_EQ(chosen.size(), 1U);
      started = chosen[0] == 0;
      std::erase_if(queue, [&](const FillJobInfo& each) { return each.id == chosen[0]; });
    }
    EXPECT_TRUE(started) << policy_name(which);
  }
}

TEST(Policy, AJobIsSplitOverExecutorsThatNobodyElseWaitsFor) {
  Case in{{job(1, 100)}, {executor(0), executor(1), executor(2), executor(3, 10)}, policy(FillPolicy::sjf)};
  EXPECT_EQ(in().size(), 1U) << "it may not be split";
  in.jobs[0].most_shards = 8;
  auto decisions = in();
  // Alone 200 s; three equal executors 66.7 s + 2 s; with the slow one (1000 s alone) 250 s.
  ASSERT_EQ(decisions.size(), 3U);
  std::set<std::int64_t> parts;
  for (const FillDecision& decision : decisions) {
    EXPECT_EQ(decision.shards, 3);
    EXPECT_NE(decision.executor, 3);
    EXPECT_NEAR(to_seconds(decision.expected), 200.0 / 3, 0.01);
    EXPECT_NE(decision.reason.find("of 3"), std::string::npos) << decision.reason;
    parts.insert(decision.shard);
  }
  EXPECT_EQ(parts, (std::set<std::int64_t>{0, 1, 2}));
  in.jobs.push_back(job(2, 300)), in.jobs.push_back(job(3, 300)), in.jobs.push_back(job(4, 300));
  EXPECT_EQ(in().size(), 4U) << "others wait: one executor each";
  in.jobs.resize(1);
  in.settings.shard_start = 190s;
  EXPECT_EQ(in().size(), 1U) << "starting costs more than it saves";
  in.settings.shard_start = 1s;
  in.jobs[0].pinned = 0;
  EXPECT_EQ(in().size(), 1U) << "it has started already";
}

TEST(Policy, ASecondJobFindsWhatTheFirstLeaves) {
  Case in{{job(1, 10), job(2, 20), job(3, 30)}, {executor(0, 50)}, policy(FillPolicy::sjf)};
  in.executors[0].room = 3;
  EXPECT_EQ(in.order(), (Ids{1})) << "chunks of 1 ms leave nothing over";
  in.jobs[0].configurations[0].times = {ChunkTime(30ms)};  // leaves 20 ms
  in.jobs[0].configurations[0].chunks = {};
  in.jobs[0].configurations[0].chunks.append({.count = 10, .memory = {10}, .samples = 1});
  const auto decisions = in();
  ASSERT_EQ(decisions.size(), 2U);
  EXPECT_EQ(decisions[1].job, 2);
  EXPECT_EQ(decisions[1].expected, 100s) << "20 ms of 100";
}

TEST(Policy, RandomQueuesNobodyTwiceEverybodyWithAReasonAlwaysTheSame) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 100; ++trial) {
    Case in{{}, {}, policy(static_cast<FillPolicy>(random() % 6))};
    const int jobs = static_cast<int>(random() % 30), executors = 1 + static_cast<int>(random() % 8);
    for (int j = 0; j < jobs; ++j) {
      in.jobs.push_back(job(j, 1 + static_cast<int>(random() % 50), static_cast<int>(random() % 900) * 1s));
      in.jobs.back().most_shards = 1 + static_cast<int>(random() % 4);
      if (random() % 3 == 0) in.jobs.back().deadline = static_cast<int>(random() % 2000) * 1s;
    }
    for (int e = 0; e < executors; ++e) in.executors.push_back(executor(e, 5 + static_cast<int>(random() % 50)));
    const auto decisions = in(), again = in();
    std::set<std::pair<std::int64_t, std::int64_t>> seen;
    std::set<int> taken;
    for (std::size_t d = 0; d < decisions.size(); ++d) {
      EXPECT_TRUE(seen.insert({decisions[d].job, decisions[d].shard}).second);
      EXPECT_TRUE(taken.insert(decisions[d].executor).second);
      EXPECT_FALSE(decisions[d].reason.empty());
      EXPECT_EQ(decisions[d].reason, again[d].reason);
    }
    EXPECT_GE(std::ssize(decisions), std::min(jobs, executors));
  }
}

/// Chunks of 30 ms in a bubble of 50 ms: 20 ms are left over.
FillJobInfo coarse(std::int64_t id) {
  FillJobInfo made = job(id, 60);
  made.configurations[0].times = {ChunkTime(30ms)};
  return made;
}

TEST(Policy, WhatRunsThereLeavesTheRest) {
  const FillJobInfo there = coarse(9);
  Case in{{coarse(1), job(2, 60)}, {executor(0)}, policy(FillPolicy::fifo)};
  in.executors[0].sharing = {&there};
  const std::vector<FillDecision> decisions = in();
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].job, 2) << "the earlier one does not fit into 20 ms";
  EXPECT_EQ(decisions[0].expected, 300s) << "20 ms of its 60 s in every 100 ms";
  in.executors[0].room = 0;
  EXPECT_TRUE(in().empty());
}

TEST(Policy, TooLittleRoomIsNoRoom) {
  const FillJobInfo there = coarse(9);
  Case in{{job(2, 60)}, {executor(0, 34)}, policy(FillPolicy::fifo)};  // 4 of 34 ms are left
  in.executors[0].sharing = {&there};
  EXPECT_EQ(in().size(), 1U);
  in.settings.least_share = 0.2;
  EXPECT_TRUE(in().empty());
  in.jobs[0].progress.reached(59'998);  // two chunks: they end in one step
  EXPECT_EQ(in().size(), 1U);
}

TEST(Policy, TheStateOfWhatRunsThereTakesMemory) {
  FillJobInfo there = coarse(9);
  there.configurations[0].resident = {85};
  Case in{{job(2, 60)}, {executor(0)}, policy(FillPolicy::fifo)};  // of 100; a chunk needs 10
  in.executors[0].sharing = {&there};
  EXPECT_EQ(in().size(), 1U);
  in.jobs[0].configurations[0].resident = {6};
  EXPECT_TRUE(in().empty());
}

}  // namespace
}  // namespace pipefill
