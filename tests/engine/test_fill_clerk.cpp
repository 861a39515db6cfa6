// engine/fill_clerk: the queue as a thread of rank 0 keeps it: planned in a process of its own, cancelled, resumed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "fill_fixture.hpp"

namespace pipefill::testing {
namespace {

class Clerk : public FillTest {
 protected:
  FillClerkSettings settings(std::vector<std::string> jobs = {}) const {
    return {.run_directory = run_directory(), .deck_jobs = std::move(jobs), .look_every = 20ms};
  }
  static std::vector<std::string> names(FillClerk& clerk) {
    std::vector<std::string> names;
    for (const ClerkJob& job : clerk.waiting()) names.push_back(job.info.name);
    return names;
  }
  static FillDecision decision(std::int64_t job) {
    return {.job = job, .executor = 1, .configuration = 1, .score = 0.5, .expected = 3s, .reason = "because"};
  }
  FillQueue queue() const { return {run_directory(), {}}; }
};

TEST_F(Clerk, PlansTheDecksJobsAndOffersThem) {
  const std::string job = job_file("a", "chunks: 10", "priority: 2\nowner: ann\ndeadline: 60s\n");
  FillClerk clerk(settings({job}), make_null_log());
  EXPECT_TRUE(clerk.has_jobs());
  clerk.wait_for_plans(30s);
  EXPECT_TRUE(clerk.take_news());
  EXPECT_FALSE(clerk.take_news()) << "told once";
  const std::vector<ClerkJob> waiting = clerk.waiting();
  ASSERT_EQ(waiting.size(), 1U);
  const FillJobInfo& info = waiting[0].info;
  EXPECT_EQ(info.name, "a");
  EXPECT_EQ(info.kind, "plugin");
  EXPECT_EQ(info.owner, "ann");
  EXPECT_EQ(info.priority, 2);
  ASSERT_TRUE(info.deadline);
  EXPECT_EQ(*info.deadline - info.arrival, Nanoseconds{60s});
  ASSERT_EQ(info.configurations.size(), 2U);
  EXPECT_EQ(info.configurations[0].name, "batch=2");
  EXPECT_EQ(info.configurations[0].chunks.size(), 10);
  EXPECT_EQ(info.configurations[1].chunks.size(), 20);
  EXPECT_EQ(info.configurations[0].resident, Bytes{16});
  EXPECT_FALSE(info.pinned);
  EXPECT_EQ(status("a"), JobStatus::submitted);
}

TEST_F(Clerk, AJobFileThatIsWrongOrMissingIsAnError) {
  const std::string path = scratch_ / "bad.yaml";
  std::ofstream(path) << "name: a\nkind: scorre\n";
  EXPECT_THROW(FillClerk(settings({path}), make_null_log()), DeckError);
  EXPECT_THROW(FillClerk(settings({scratch_ / "none.yaml"}), make_null_log()), FileError);
}

TEST_F(Clerk, AKindThatRefusesOrCrashesWhilePlanningFailsItsJobOnly) {
  FillClerk clerk(settings({job_file("bad", "fault: create"), job_file("good", "chunks: 3")}), make_null_log());
  clerk.wait_for_plans(30s);
  EXPECT_EQ(names(clerk), std::vector<std::string>{"good"});
  const JobState state = JobDirectory::open(run_directory() + "/fill/bad").read_state();
  EXPECT_EQ(state.status, JobStatus::failed);
  EXPECT_NE(state.message.find("a bad parameter"), std::string::npos) << state.message;
}

TEST_F(Clerk, AJobSubmittedLaterIsNews) {
  FillClerk clerk(settings(), make_null_log());
  clerk.wait_for_plans(30s);
  EXPECT_FALSE(clerk.has_jobs());
  EXPECT_FALSE(clerk.take_news());
  queue().submit(job_text("late", "chunks: 3"), "late.yaml", scratch_.path());
  EXPECT_TRUE(eventually([&] { return clerk.take_news(); }));
  EXPECT_EQ(names(clerk), std::vector<std::string>{"late"});
}

TEST_F(Clerk, ACancelledJobIsNotOfferedAndItsStateSaysSo) {
  FillClerk clerk(settings({job_file("a", "chunks: 3"), job_file("b", "chunks: 3")}), make_null_log());
  clerk.wait_for_plans(30s);
  FillQueue mine = queue();
  EXPECT_TRUE(mine.cancel(mine.find("a")));
  EXPECT_TRUE(eventually([&] { return names(clerk).size() == 1; }));
  EXPECT_EQ(names(clerk), std::vector<std::string>{"b"});
  EXPECT_TRUE(eventually([&] { return status("a") == JobStatus::cancelled; }));
  EXPECT_EQ(status("b"), JobStatus::submitted);
}

TEST_F(Clerk, ARunningJobIsCancelledOnlyWhenItsRankLetGo) {
  FillClerk clerk(settings({job_file("a", "chunks: 3")}), make_null_log());
  clerk.wait_for_plans(30s);
  const std::int64_t number = clerk.waiting().at(0).info.id;
  clerk.hand_out(decision(number), 5, 1);
  EXPECT_TRUE(clerk.take_news());
  FillQueue mine = queue();
  mine.cancel(mine.find("a"));
  ASSERT_TRUE(eventually([&] { return clerk.take_news(); })) << "its rank must hear of it";
  EXPECT_TRUE(clerk.find(number)->cancelled);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(status("a"), JobStatus::submitted) << "five looks later";
  clerk.note({number, OutcomeState::over, 1, {}});
  EXPECT_TRUE(eventually([&] { return status("a") == JobStatus::cancelled; }));
}

TEST_F(Clerk, ADecisionIsWrittenDownWithItsReason) {
  FillClerk clerk(settings({job_file("a", "chunks: 3")}), make_null_log());
  clerk.wait_for_plans(30s);
  clerk.hand_out(decision(clerk.waiting().at(0).info.id), 5, 1);
  EXPECT_TRUE(clerk.waiting().empty());
  const nlohmann::json line = nlohmann::json::parse(content(run_directory() + "/fill/decisions.jsonl"));
  EXPECT_EQ(line["step"], 5);
  EXPECT_EQ(line["job"], "a");
  EXPECT_EQ(line["rank"], 1);
  EXPECT_EQ(line["configuration"], "batch=1");
  EXPECT_EQ(line["expected_s"], 3.0);
  EXPECT_EQ(line["reason"], "because");
}

TEST_F(Clerk, OutcomesAddUpToOwnersTimesAndProgress) {
  FillClerk clerk(settings({job_file("a", "chunks: 3", "owner: ann\n"), job_file("b", "chunks: 3", "owner: ann\n")}),
                  make_null_log());
  clerk.wait_for_plans(30s);
  const std::vector<ClerkJob> waiting = clerk.waiting();
  clerk.note({waiting.at(0).info.id, OutcomeState::running, 2, 5ms});
  clerk.note({waiting.at(1).info.id, OutcomeState::over, 3, 7ms});
  EXPECT_EQ(clerk.owner_time(), (std::map<std::string, Nanoseconds>{{"ann", 12ms}}));
  const nlohmann::json progress = nlohmann::json::parse(clerk.progress());
  EXPECT_EQ(progress["a"], (nlohmann::json{{"done", 2}, {"over", false}}));
  EXPECT_EQ(progress["b"], (nlohmann::json{{"done", 3}, {"over", true}}));
}

TEST_F(Clerk, TheNextStartKnowsWhatIsOverAndWhatIsPinned) {
  const std::vector<std::string> jobs{job_file("begun", "chunks: 100000, chunk_us: 100"),
                                      job_file("over", "chunks: 3")};
  {
    FillClerk clerk(settings(jobs), make_null_log());
    clerk.wait_for_plans(30s);
  }
  {
    Supervisor supervisor(worker(), make_null_log());
    for (const char* name : {"over", "begun"}) {
      supervisor.assign(run_directory() + "/fill/" + name, "batch=1");
      ASSERT_TRUE(eventually([&] {
        supervisor.grant(now() + 5ms, Bytes{1 << 30});
        supervisor.wait_news(5ms);
        supervisor.stop();
        const AssignedJob job = supervisor.job();
        return job.state == AssignedState::finished || (job.chunks > 1000 && job.done > 2);
      })) << name;
    }
  }
  FillClerk clerk(settings(jobs), make_null_log());
  clerk.wait_for_plans(30s);
  const std::vector<ClerkJob> waiting = clerk.waiting();
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].info.name, "begun");
  ASSERT_TRUE(waiting[0].info.pinned);
  EXPECT_EQ(*waiting[0].info.pinned, 1);
  EXPECT_GT(waiting[0].info.progress.done(), 2);
}

}  // namespace
}  // namespace pipefill::testing
