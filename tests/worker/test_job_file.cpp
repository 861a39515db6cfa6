// Job files: what is read, and that everything wrong is refused with its place and reason.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "fill_jobs/plugin.hpp"
#include "worker/job_file.hpp"

namespace pipefill::testing {
namespace {

const std::vector<std::string> kKinds{"score", "train", "command", "plugin"};

std::string complaint(const std::string& text) {
  try {
    parse_fill_job(text, "job.yaml", kKinds);
  } catch (const DeckError& e) {
    return e.what();
  }
  return "";
}

TEST(JobFile, EverythingIsRead) {
  const FillJobSpec spec = parse_fill_job(
      "name: night-1\nkind: score\nwith:\n  texts: [a.txt, \"b c.txt\"]\n  batch: 4\npriority: 2.5\ndeadline: 2h\n"
      "owner: ada\nlimits: {memory: 2GiB, disk: 1GB, processes: 8, output: 1MiB, cpu: 30min, tries: 5}\n"
      "configuration: batch=4\nshards: 3\nseed: 9\n",
      "job.yaml", kKinds);
  EXPECT_EQ(spec.name, "night-1");
  EXPECT_EQ(spec.kind, "score");
  const std::vector<std::pair<std::string, std::string>> parameters{
      {"texts", "a.txt"}, {"texts", "b c.txt"}, {"batch", "4"}};
  EXPECT_EQ(spec.parameters, parameters);
  EXPECT_EQ(spec.priority, 2.5);
  EXPECT_EQ(spec.deadline, Nanoseconds{7'200'000'000'000});
  EXPECT_EQ(spec.owner, "ada");
  EXPECT_EQ(spec.limits.memory, (Bytes{std::int64_t{2} << 30}));
  EXPECT_EQ(spec.limits.disk, Bytes{1'000'000'000});
  EXPECT_EQ(spec.limits.processes, 8);
  EXPECT_EQ(spec.limits.output, Bytes{1 << 20});
  EXPECT_EQ(spec.limits.cpu, Nanoseconds{1'800'000'000'000});
  EXPECT_EQ(spec.limits.tries, 5);
  EXPECT_EQ(spec.configuration, "batch=4");
  EXPECT_EQ(spec.shards, 3);
  EXPECT_EQ(spec.seed, 9U);
}

TEST(JobFile, WhatIsWrongHasItsPlaceAndReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"kind: score\n", "job.yaml:1:1: name: is missing"},
      {"name: a\n", "kind: is missing"},
      {"name: a\nkind: scoer\n", "job.yaml:2:7: kind: unknown kind 'scoer'; did you mean 'score'?"},
      {"name: ../a\nkind: score\n", "job.yaml:1:7: name: expected at most 64 letters"},
      {"name: .a\nkind: score\n", "job.yaml:1:7: name"},
      {"name: a\nkind: score\nprioritty: 1\n", "job.yaml:3:1: prioritty: unknown key; did you mean 'priority'?"},
      {"name: a\nkind: score\nlimits: {memory: 5}\n", "job.yaml:3:18: limits.memory: expected a size with its unit"},
      {"name: a\nkind: score\nlimits: {memroy: 5MiB}\n", "limits.memroy: unknown key; did you mean 'limits.memory'?"},
      {"name: a\nkind: score\nlimits: 5MiB\n", "job.yaml:3:9: limits: expected keys with values"},
      {"name: a\nkind: score\nlimits: {tries: 0}\n", "limits.tries: expected an integer from 1"},
      {"name: a\nkind: score\ndeadline: 5\n", "deadline: expected a time with its unit"},
      {"name: a\nkind: score\nwith: [a]\n", "job.yaml:3:7: with: expected keys with values"},
      {"name: a\nkind: score\nwith:\n  x: {y: 1}\n", "job.yaml:4:6: with.x: expected a value or a list"},
      {"name: a\nkind: score\nwith:\n  x: [[1]]\n", "with.x: expected a value or a list of values"},
      {"name: a\nkind: score\nseed: -1\n", "job.yaml:3:7: seed: expected an integer from 0"},
      {"name: a\nname: b\nkind: score\n", "job.yaml:2:1"},
      {"name: a\nkind: score\nshards: two\n", "job.yaml:3:9: shards"},
      {"name: &x a\nkind: score\n", "job.yaml:1"},
      {"[1, 2]", "job.yaml:1:1: expected keys with values"},
      {"", "job.yaml"},
      {"\x01\x02", "job.yaml:1:1"},
  };
  for (const auto& [text, reason] : cases)
    EXPECT_NE(complaint(text).find(reason), std::string::npos) << text << "\nsays: " << complaint(text);
}

TEST(JobFile, AllProblemsAreToldAtOnce) {
  const std::string text = complaint("name: a b\nkind: x\npriority: high\n");
  EXPECT_NE(text.find("job.yaml:1:7"), std::string::npos) << text;
  EXPECT_NE(text.find("job.yaml:2:7"), std::string::npos) << text;
  EXPECT_NE(text.find("job.yaml:3:11"), std::string::npos) << text;
}

TEST(JobFile, TooLargeIsRefusedBeforeItIsRead) {
  const TemporaryDirectory directory;
  std::ofstream(directory / "job.yaml") << "name: a\nkind: score\nowner: " << std::string(kMaxJobFile, 'x') << "\n";
  try {
    read_fill_job(directory / "job.yaml", kKinds);
    FAIL();
  } catch (const FileError& e) {
    EXPECT_EQ(e.code(), ExitCode::damaged_data);
  }
  EXPECT_THROW(read_fill_job(directory / "none.yaml", kKinds), FileError);
}

TEST(Plugin, IsCheckedBeforeItIsLoaded) {
  const TemporaryDirectory directory;
  EXPECT_THROW(load_plugin("none.so", directory.path()), FileError);
  std::ofstream(directory / "text.so") << "not a library";
  EXPECT_THROW(load_plugin("text.so", directory.path()), FileError);
  const std::string copy = directory / "open.so";
  std::ifstream from(PIPEFILL_TEST_PLUGIN, std::ios::binary);
  std::ofstream(copy, std::ios::binary) << from.rdbuf();
  ASSERT_EQ(::chmod(copy.c_str(), 0666), 0);
  try {
    load_plugin("open.so", directory.path());
    FAIL();
  } catch (const FileError& e) {
    EXPECT_NE(std::string(e.what()).find("writable by everybody"), std::string::npos);
  }
  ASSERT_EQ(::chmod(copy.c_str(), 0644), 0);
  EXPECT_STREQ(load_plugin("open.so", directory.path())->name, "example");
  pipefill_fill_kind other = *load_plugin("open.so", directory.path());
  other.abi = 99;
  EXPECT_THROW(check_kind(&other, "other"), FileError);
  other.abi = PIPEFILL_FILL_JOB_ABI;
  other.save = nullptr;
  EXPECT_THROW(check_kind(&other, "other"), FileError);
}

}  // namespace
}  // namespace pipefill::testing
