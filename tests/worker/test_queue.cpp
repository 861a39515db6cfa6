// The spool directory: order, several submitters, cancelling, damage, size.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "worker/queue.hpp"

namespace pipefill::testing {
namespace {

const std::vector<std::string> kKinds{"score"};

std::string job(const std::string& name, const std::string& rest = "") {
  return "name: " + name + "\nkind: score\n" + rest;
}

TEST(FillQueue, GivesBackWhatWasSubmittedInOrder) {
  const TemporaryDirectory run;
  FillQueue submitter(run.path(), kKinds), scheduler(run.path(), kKinds);
  submitter.submit(job("b", "priority: 3\ndeadline: 1h\n"), "b.yaml", "/base");
  submitter.submit(job("a"), "a.yaml", "/base");
  const std::vector<QueueEntry> entries = scheduler.scan();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "b");
  EXPECT_EQ(entries[0].spec.priority, 3);
  EXPECT_EQ(entries[0].base_directory, "/base");
  EXPECT_EQ(entries[0].job_text, job("b", "priority: 3\ndeadline: 1h\n"));
  EXPECT_LT(entries[0].number, entries[1].number);
  EXPECT_EQ(scheduler.job_directory(entries[1]), run.path() + "/fill/a");
  submitter.submit(job("c"), "c.yaml", "/base");
  EXPECT_EQ(scheduler.scan().size(), 3U);
}

TEST(FillQueue, BadJobsAreRefusedAtSubmission) {
  const TemporaryDirectory run;
  FillQueue queue(run.path(), kKinds);
  EXPECT_THROW(queue.submit("name: a\nkind: nothing\n", "a.yaml", "/"), DeckError);
  EXPECT_THROW(queue.submit(job("a") + "owner: " + std::string(kMaxJobFile, 'x'), "a.yaml", "/"), FileError);
  queue.submit(job("a"), "a.yaml", "/");
  EXPECT_THROW(queue.submit(job("a"), "a.yaml", "/"), FileError) << "its name is in use";
  EXPECT_EQ(queue.scan().size(), 1U);
}

TEST(FillQueue, TakenCancelledRemoved) {
  const TemporaryDirectory run;
  FillQueue user(run.path(), kKinds), scheduler(run.path(), kKinds);
  const QueueEntry a = user.submit(job("a"), "", "/"), b = user.submit(job("b"), "", "/");
  scheduler.scan();
  scheduler.take(a.number);
  EXPECT_TRUE(user.find("a").taken);
  EXPECT_FALSE(user.find(std::to_string(b.number)).taken);
  EXPECT_TRUE(user.cancel(user.find("a")));
  EXPECT_FALSE(user.cancel(user.find("a")));
  ASSERT_EQ(scheduler.scan().size(), 2U);
  EXPECT_TRUE(scheduler.scan()[0].cancelled);
  EXPECT_FALSE(scheduler.scan()[1].cancelled);
  scheduler.remove(a.number);
  EXPECT_EQ(user.scan().size(), 1U);
  EXPECT_THROW(user.find("a"), FileError);
  EXPECT_GT(user.submit(job("c"), "", "/").number, b.number);
  FillQueue later(run.path(), kKinds);
  EXPECT_THROW(later.submit(job("a"), "", "/"), FileError) << "the name was used in this run";
}

TEST(FillQueue, DamagedFilesAreMovedAsideWithTheirReason) {
  const TemporaryDirectory run;
  FillQueue queue(run.path(), kKinds);
  const QueueEntry good = queue.submit(job("good"), "", "/");
  const std::string entry = queue.path() + "/00000001-good.json";
  ASSERT_TRUE(std::filesystem::exists(entry));
  std::ifstream from(entry);
  const std::string text{std::istreambuf_iterator<char>(from), {}};
  std::ofstream(queue.path() + "/00000002-cut.json") << text.substr(0, text.size() / 2);
  std::ofstream(queue.path() + "/00000003-zeros.json") << std::string(100, '\0');
  std::ofstream(queue.path() + "/00000004-other.json") << text;
  std::ofstream(queue.path() + "/stray.txt") << "x";
  std::ofstream(queue.path() + "/00000005-large.json") << std::string(7 << 20, 'x');
  std::filesystem::create_directory(queue.path() + "/00000006-directory.json");
  std::ofstream(queue.path() + "/00000007-kind.json")
      << R"({"format":1,"number":7,"submitted_ns":1,"base_directory":"/","job":"name: kind\nkind: nothing\n"})";
  ASSERT_EQ(queue.scan().size(), 1U);
  EXPECT_EQ(queue.scan()[0].name, "good");
  const std::vector<RefusedEntry> refused = queue.refused();
  ASSERT_EQ(refused.size(), 7U);
  for (const RefusedEntry& r : refused) EXPECT_NE(r.reason, "unknown") << r.file;
  EXPECT_NE(refused[5].reason.find("unknown kind 'nothing'"), std::string::npos) << refused[5].reason;
}

TEST(FillQueue, SubmittersAtOnceGetDifferentNumbers) {
  const TemporaryDirectory run;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&run, t] {
      FillQueue queue(run.path(), kKinds);
      for (int i = 0; i < 10; ++i) queue.submit(job("j" + std::to_string(t) + "-" + std::to_string(i)), "", "/");
    });
  for (std::thread& thread : threads) thread.join();
  FillQueue queue(run.path(), kKinds);
  const std::vector<QueueEntry> entries = queue.scan();
  ASSERT_EQ(entries.size(), 40U);
  for (std::size_t i = 1; i < entries.size(); ++i) EXPECT_GT(entries[i].number, entries[i - 1].number);
  EXPECT_TRUE(queue.refused().empty());
}

TEST(FillQueue, TakesTenThousandJobs) {
  const TemporaryDirectory run;
  FillQueue queue(run.path(), kKinds);
  queue.submit(job("first"), "", "/");
  std::ifstream from(queue.path() + "/00000001-first.json");
  const std::string text{std::istreambuf_iterator<char>(from), {}};
  for (int i = 2; i <= 10'000; ++i) {  // as submit writes them, without its syncs
    std::string entry = text;
    const std::string name = "job" + std::to_string(i);
    entry.replace(entry.find("first"), 5, name);
    entry.replace(entry.find("\"number\": 1"), 11, "\"number\": " + std::to_string(i));
    char number[16];
    std::snprintf(number, sizeof number, "%08d", i);
    std::ofstream(queue.path() + "/" + number + "-" + name + ".json") << entry;
  }
  EXPECT_EQ(queue.scan().size(), 10'000U);
  EXPECT_TRUE(queue.refused().empty());
  FillQueue another(run.path(), kKinds);
  EXPECT_EQ(another.submit(job("last"), "", "/").number, 10'001);
  EXPECT_EQ(queue.scan().size(), 10'001U);
  EXPECT_EQ(queue.scan().back().name, "last");
}

}  // namespace
}  // namespace pipefill::testing
