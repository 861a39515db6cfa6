// engine/fill_desk: who gets which job and when, over two ranks that are threads of this process.
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "checkpoint/rank_group.hpp"
#include "comm/loopback_transport.hpp"
#include "comm/wait.hpp"
#include "engine/fill_desk.hpp"
#include "fill_fixture.hpp"

namespace pipefill::testing {
namespace {

const Program kProgram{Bubble{BubbleClass::steady}, Forward{{0}, {0}}};
constexpr Bytes kMemory{1 << 30};

/// One rank with all that filling needs, and steps of one bubble of 5 ms.
class Rank {
 public:
  Rank(Transport& transport, FillClerk* clerk, SupervisorSettings worker, Trace& trace, std::size_t most_jobs,
       const PolicySettings& policy)
      : crew_(std::move(worker), make_null_log()),
        waiter_(ProcessLayout{transport.size(), 1}, transport.rank(), {}),
        fill_(bubbles(), kProgram, crew_, trace),
        desk_({.policy = policy, .most_jobs = most_jobs, .alone = 5ms}, {transport.size(), 1},
              ranks_over(transport, waiter_), clerk, fill_, trace, make_null_log()),
        transport_(transport) {}

  FillDesk& desk() { return desk_; }
  FillCrew& crew() { return crew_; }
  bool has_job() const { return !desk_.jobs().empty(); }
  bool any_news() {
    std::int64_t word = desk_.has_news() ? 1 : 0;
    Request request = transport_.all_reduce_max(word, word);
    waiter_.wait(transport_, request, {WaitKind::collective, {-1}, {}, step_});
    return word != 0;
  }
  /// One step, and a meeting if somebody has news.
  void step() {
    fill_.begin_step(++step_);
    const Nanoseconds begin = now();
    Pause& pause = fill_.enter(0, begin, kMemory, {-1});
    pause.begin();
    while (now() < begin + 5ms) pause.pause();
    fill_.leave();
    fill_.record(0, begin, begin + 5ms, kMemory);
    fill_.end_step(6ms);
    if (any_news()) desk_.meet(step_, 6ms);
  }
  /// Steps until every rank says so; false on all of them when that takes one too long.
  bool steps_until(const std::function<bool()>& condition) {
    constexpr std::int64_t kYes = 0, kNotYet = 1, kTooLong = 2;
    for (const Nanoseconds end = now() + 60s;;) {
      std::int64_t word = condition() ? kYes : now() < end ? kNotYet : kTooLong;
      Request request = transport_.all_reduce_max(word, word);
      waiter_.wait(transport_, request, {WaitKind::collective, {-1}, {}, step_});
      if (word != kNotYet) return word == kYes;
      step();
    }
  }

 private:
  static BubbleFillSettings bubbles() {
    BubbleFillSettings s;
    s.audit = {.first_step = 2, .block = 1, .audit = 0};
    s.guard.start = Nanoseconds{0};
    s.wait = WaitMethod::sleep;
    return s;
  }
  FillCrew crew_;
  Waiter waiter_;
  BubbleFill fill_;
  FillDesk desk_;
  Transport& transport_;
  std::int64_t step_ = 0;
};

class Desk : public FillTest {
 protected:
  /// body(rank, clerk on rank 0) on two ranks.
  void on_two_ranks(const std::vector<std::string>& jobs, const std::function<void(Rank&, FillClerk*)>& body) {
    run_loopback(2, [&](Transport& transport) {
      std::unique_ptr<FillClerk> clerk;
      if (transport.rank().value == 0)
        clerk = std::make_unique<FillClerk>(
            FillClerkSettings{.run_directory = run_directory(), .deck_jobs = jobs, .look_every = 10ms},
            make_null_log());
      Trace none;
      Rank rank(transport, clerk.get(), worker(), transport.rank().value == 0 ? trace() : none, most_jobs_, policy_);
      body(rank, clerk.get());
    });
  }
  std::size_t most_jobs_ = 1;
  PolicySettings policy_;
  std::vector<nlohmann::json> decisions() const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(content(run_directory() + "/fill/decisions.jsonl"));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
};

TEST_F(Desk, GivesEveryRankAJobAndTheNextWhenOneIsOver) {
  const std::vector<std::string> jobs{job_file("a", "chunks: 20, chunk_us: 100"),
                                      job_file("b", "chunks: 20, chunk_us: 100"),
                                      job_file("c", "chunks: 20, chunk_us: 100")};
  std::atomic<int> first_round{0};
  on_two_ranks(jobs, [&](Rank& rank, FillClerk* clerk) {
    rank.desk().open();
    if (rank.has_job()) ++first_round;
    const bool all_over = rank.steps_until([&] {
      return clerk == nullptr || (clerk->waiting().empty() && nlohmann::json::parse(clerk->progress())["c"]["over"]);
    });
    EXPECT_TRUE(all_over);
    rank.desk().close();
  });
  EXPECT_EQ(first_round, 2);
  ASSERT_EQ(decisions().size(), 3U);
  EXPECT_NE(decisions()[0]["rank"], decisions()[1]["rank"]) << "both ranks at once";
  EXPECT_EQ(decisions()[2]["job"], "c");
  EXPECT_GE(decisions()[2]["step"], 1) << "not before one was over";
  for (const char* job : {"a", "b", "c"}) {
    EXPECT_EQ(status(job), JobStatus::finished) << job;
    EXPECT_EQ(content(run_directory() + "/fill/" + job + "/result"), std::to_string(expected_result(20))) << job;
  }
}

TEST_F(Desk, HasNewsOnlyWhenSomethingIsOver) {
  on_two_ranks({job_file("a", "chunks: 1000000, chunk_us: 100")}, [&](Rank& rank, FillClerk* clerk) {
    rank.desk().open();
    if (clerk != nullptr) clerk->take_news();
    for (int i = 0; i < 5; ++i) {
      EXPECT_FALSE(rank.any_news());
      rank.step();
    }
    rank.desk().close();
  });
}

TEST_F(Desk, ACancelledJobIsTakenBack) {
  on_two_ranks({job_file("a", "chunks: 1000000, chunk_us: 100")}, [&](Rank& rank, FillClerk* clerk) {
    rank.desk().open();
    const bool had = rank.has_job();
    if (clerk != nullptr) {
      FillQueue queue(run_directory(), {});
      queue.cancel(queue.find("a"));
    }
    EXPECT_TRUE(rank.steps_until([&] { return !rank.has_job(); }));
    if (had) {
      EXPECT_EQ(rank.crew().members()[0]->worker->job().state, AssignedState::none);
    }
    EXPECT_TRUE(rank.steps_until([&] { return status("a") == JobStatus::cancelled; }));
    rank.desk().close();
  });
}

TEST_F(Desk, AFailingJobIsRetriedOnItsRankThenLetGoAndNotGivenOutAgain) {
  on_two_ranks({job_file("bad", "chunks: 5, fault: fail, fault_at: 2")}, [&](Rank& rank, FillClerk* clerk) {
    rank.desk().open();
    bool waited = false;
    const bool gone = rank.steps_until([&] {
      waited |= rank.has_job() && rank.crew().members()[0]->worker->job().state == AssignedState::waiting;
      return !rank.has_job() && (clerk == nullptr || nlohmann::json::parse(clerk->progress())["bad"]["over"]);
    });
    EXPECT_TRUE(gone);
    for (int i = 0; i < 5; ++i) rank.step();
    EXPECT_FALSE(rank.has_job());
    rank.desk().close();
  });
  EXPECT_EQ(decisions().size(), 1U) << "three tries, one decision";
  const JobState state = JobDirectory::open(run_directory() + "/fill/bad").read_state();
  EXPECT_EQ(state.status, JobStatus::quarantined);
  EXPECT_EQ(state.failures, 3);
  EXPECT_EQ(state.done, 2);
}

TEST_F(Desk, WhatLeavesMuchUnusedIsJoinedByAnother) {
  most_jobs_ = 2;
  // Bubbles of 5 ms; two chunks of 3 ms never lie in one. Four jobs for two ranks, and each rank has room for two.
  std::vector<std::string> jobs;
  for (const char* name : {"a", "b"}) jobs.push_back(job_file(name, "chunks: 1000000, chunk_us: 3000"));
  for (const char* name : {"c", "d"})
    jobs.push_back(job_file(name, "chunks: 1000000, chunk_us: 100", "priority: -5\n"));
  on_two_ranks(jobs, [&](Rank& rank, FillClerk* clerk) {
    rank.desk().open();
    EXPECT_EQ(rank.desk().jobs().size(), 1U);
    if (clerk != nullptr) clerk->take_news();  // that the jobs were planned: not what this is about
    ASSERT_TRUE(rank.steps_until([&] { return rank.desk().jobs().size() == 2; }));
    const auto done = [&](std::size_t i) { return rank.crew().members()[i]->worker->job().done; };
    const std::int64_t first = done(0), second = done(1);
    EXPECT_TRUE(rank.steps_until([&] { return done(0) > first + 5 && done(1) > second + 5; }));
    rank.desk().close();
  });
  ASSERT_EQ(decisions().size(), 4U);
  EXPECT_EQ(decisions()[1]["step"], 0);
  EXPECT_GE(decisions()[2]["step"], 16) << "the first one was looked at for a while";
}

TEST_F(Desk, WhatUsesItsBubblesWellIsLeftAlone) {
  most_jobs_ = 2;
  std::vector<std::string> jobs;
  for (const char* name : {"a", "b", "c"}) jobs.push_back(job_file(name, "chunks: 1000000, chunk_us: 50"));
  on_two_ranks(jobs, [&](Rank& rank, FillClerk*) {
    rank.desk().open();
    for (int i = 0; i < 60; ++i) rank.step();
    EXPECT_EQ(rank.desk().jobs().size(), 1U);
    rank.desk().close();
  });
}

class Divided : public Desk {
 protected:
  Divided() {
    policy_.shard_start = Nanoseconds{0};
    policy_.split_gain = 1;
  }
  std::string score_job(const std::string& name, int shards) {
    const std::string path = scratch_ / (name + ".yaml");
    std::ofstream(path) << "name: " << name << "\nkind: score\nshards: " << shards
                        << "\nwith: {synthetic: 37, layers: 2, channels: 64, heads: 2, context: 32, vocab: 64, "
                           "batch: 2}\n";
    return path;
  }
  /// Output of the same job in one piece.
  std::string alone() {
    const std::string text = content(score_job("job", 1));
    JobState state;
    state.name = "job", state.kind = "score";
    const std::string path = JobDirectory::create(scratch_ / "alone", text, state).path();
    Supervisor supervisor(worker(FillIsolation::process), make_null_log());
    supervisor.assign(path, "");
    EXPECT_TRUE(eventually([&] {
      supervisor.grant(now() + 50ms, Bytes{1 << 30});
      supervisor.wait_news(50ms);
      supervisor.stop();
      return supervisor.job().state == AssignedState::finished;
    })) << supervisor.job().message;
    return content(path + "/nll.h5");
  }
};

TEST_F(Divided, AJobIsDoneByTwoRanksAndItsOutputIsThatOfOne) {
  std::atomic<int> with_part{0};
  on_two_ranks({score_job("job", 2)}, [&](Rank& rank, FillClerk* clerk) {
    rank.desk().open();
    if (rank.has_job()) ++with_part;
    EXPECT_TRUE(rank.steps_until([&] { return clerk == nullptr || status("job") == JobStatus::finished; }));
    rank.desk().close();
  });
  EXPECT_EQ(with_part, 2) << "both at once";
  ASSERT_EQ(decisions().size(), 2U);
  EXPECT_EQ(decisions()[0]["job"], "job part 1 of 2");
  EXPECT_EQ(decisions()[1]["job"], "job part 2 of 2");
  const std::string directory = run_directory() + "/fill/job";
  EXPECT_FALSE(std::filesystem::exists(directory + "/part-0")) << "they are joined";
  ASSERT_FALSE(alone().empty());
  EXPECT_EQ(content(directory + "/nll.h5"), content(scratch_ / "alone/nll.h5"));
}

TEST_F(Divided, TheNextStartGoesOnWithTheParts) {
  const std::vector<std::string> jobs{score_job("job", 2)};
  on_two_ranks(jobs, [&](Rank& rank, FillClerk*) {
    rank.desk().open();
    rank.crew().stop();
  });
  EXPECT_EQ(status("job"), JobStatus::running);
  EXPECT_TRUE(std::filesystem::exists(run_directory() + "/fill/job/part-1/state.json"));
  on_two_ranks(jobs, [&](Rank& rank, FillClerk* clerk) {
    rank.desk().open();
    EXPECT_TRUE(rank.steps_until([&] { return clerk == nullptr || status("job") == JobStatus::finished; }));
    rank.desk().close();
  });
  ASSERT_FALSE(alone().empty());
  EXPECT_EQ(content(run_directory() + "/fill/job/nll.h5"), content(scratch_ / "alone/nll.h5"));
}

TEST_F(Divided, APartThatFailsFailsTheJobWithItsMessage) {
  on_two_ranks({score_job("job", 2)}, [&](Rank& rank, FillClerk* clerk) {
    if (clerk != nullptr) {
      clerk->wait_for_plans(30s);
      clerk->divide({.job = clerk->waiting().at(0).info.id, .shards = 2, .reason = ""});
      clerk->wait_for_plans(30s);
      std::ofstream(run_directory() + "/fill/job/part-1/state.bin") << "damaged";
    }
    rank.desk().open();
    EXPECT_TRUE(rank.steps_until([&] { return clerk == nullptr || status("job") == JobStatus::failed; }));
    rank.desk().close();
  });
  const JobState state = JobDirectory::open(run_directory() + "/fill/job").read_state();
  EXPECT_NE(state.message.find("part 2 of 2: "), std::string::npos) << state.message;
  EXPECT_FALSE(std::filesystem::exists(run_directory() + "/fill/job/nll.h5"));
}

TEST_F(Divided, ACancelledJobsPartsAreTakenBack) {
  const std::string path = scratch_ / "long.yaml";
  std::ofstream(path) << "name: long\nkind: score\nshards: 2\nwith: {synthetic: 1000000, layers: 2, channels: 64, "
                         "heads: 2, context: 32, vocab: 64, batch: 2}\n";
  on_two_ranks({path}, [&](Rank& rank, FillClerk* clerk) {
    rank.desk().open();
    EXPECT_TRUE(rank.has_job());
    if (clerk != nullptr) {
      FillQueue queue(run_directory(), {});
      queue.cancel(queue.find("long"));
    }
    EXPECT_TRUE(rank.steps_until([&] { return !rank.has_job(); }));
    EXPECT_TRUE(rank.steps_until([&] { return status("long") == JobStatus::cancelled; }));
    rank.desk().close();
  });
}

TEST_F(Divided, AJobThatMayNotBeDividedIsNot) {
  on_two_ranks({score_job("job", 1), job_file("other", "chunks: 30", "shards: 2\n")},
               [&](Rank& rank, FillClerk* clerk) {
                 rank.desk().open();
                 EXPECT_TRUE(rank.steps_until([&] { return clerk == nullptr || clerk->waiting().empty(); }));
                 rank.desk().close();
               });
  ASSERT_EQ(decisions().size(), 2U);
  for (const nlohmann::json& decision : decisions())
    EXPECT_EQ(decision["job"].get<std::string>().find("part"), std::string::npos) << "the counting kind cannot";
}

TEST_F(Desk, TheTraceKnowsTheJobByName) {
  on_two_ranks({job_file("a", "chunks: 20"), job_file("b", "chunks: 20")}, [&](Rank& rank, FillClerk*) {
    rank.desk().open();
    rank.desk().close();
  });
  const CollectingSink sink = recorded();
  ASSERT_FALSE(sink.job_rows.empty());
  EXPECT_EQ(text(sink.job_rows[0].kind), "plugin");
  EXPECT_EQ(text(sink.job_rows[0].configuration), "batch=2");
  EXPECT_EQ(sink.job_rows[0].chunks, 20);
  EXPECT_DOUBLE_EQ(sink.job_rows[0].samples, 100);
}

}  // namespace
}  // namespace pipefill::testing
