// A save that fails is reported, leaves nothing behind and never touches the checkpoint before it.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "checkpoint/directory.hpp"
#include "example.hpp"

using namespace pipefill;
using namespace pipefill::testing;
namespace fs = std::filesystem;

namespace {

/// Only step 1 is there, and whole.
void expect_only_first(const std::string& directory, const Example& example) {
  EXPECT_EQ(names_in(directory), std::vector<std::string>{step_name(1)});
  const CheckpointSearch search = find_checkpoint(single_rank(), directory);
  ASSERT_TRUE(search.found);
  EXPECT_TRUE(holds(*search.found, example));
}

/// Mounts 8 MB of memory for as long as it lives; ok() is false where that is not allowed.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {
    fs::create_directory(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=8m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool ok() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_ = false;
};

}  // namespace

TEST(SaveFaults, EveryFailingCallOfEveryRank) {
  TemporaryDirectory directory;
  const Example first(1);
  const Cut cut{2, 1};
  ASSERT_EQ(save(directory.path(), first, state_at(1), cut).error, "");
  for (int rank = 0; rank < 2; ++rank) {
    for (int at = 1;; ++at) {
      int calls = 0;
      const int error = at % 3 == 0 ? ENOSPC : at % 3 == 1 ? EIO : EDQUOT;
      const SaveReport report =
          save(directory.path(), Example(2), state_at(2), cut,
               {.inject_rank = rank, .inject = [&](const char*) { return ++calls == at ? error : 0; }});
      if (calls < at) {
        EXPECT_EQ(report.error, "");
        EXPECT_GT(at, 5);
        fs::remove_all(report.path);
        break;
      }
      EXPECT_NE(report.error.find("rank " + std::to_string(rank)), std::string::npos) << report.error;
      EXPECT_NE(report.error.find(std::generic_category().message(error)), std::string::npos) << report.error;
      expect_only_first(directory.path(), first);
    }
  }
}

TEST(SaveFaults, AFileSizeLimit) {
  TemporaryDirectory directory;
  const Example first(1);
  ASSERT_EQ(save(directory.path(), first, state_at(1)).error, "");
  EXPECT_EXIT(
      {
        std::signal(SIGXFSZ, SIG_IGN);
        for (const rlim_t bytes : {0, 1, 3000, 9000}) {  // first write, headers, tensors, manifest
          rlimit limit{};
          limit.rlim_cur = bytes;
          limit.rlim_max = RLIM_INFINITY;
          setrlimit(RLIMIT_FSIZE, &limit);
          if (save(directory.path(), Example(2), state_at(2)).error.find("File too large") == std::string::npos) {
            std::exit(1);
          }
        }
        std::exit(0);  // exit, not _exit: HDF5's shutdown is part of the test
      },
      ::testing::ExitedWithCode(0), "");
  expect_only_first(directory.path(), first);
}

TEST(SaveFaults, AFullDiskIsForeseen) {
  TemporaryDirectory directory;
  const SmallDisk disk(directory / "disk");
  if (!disk.ok()) GTEST_SKIP() << "cannot mount a tmpfs here: not root";
  const Example first(1);
  ASSERT_EQ(save(directory / "disk", first, state_at(1)).error, "");
  const SaveReport report = save(directory / "disk", Example(2, 10'000), state_at(2));
  EXPECT_NE(report.error.find("not enough space"), std::string::npos) << report.error;
  expect_only_first(directory / "disk", first);
}

TEST(SaveFaults, ADiskThatFillsUpWhileWriting) {
  TemporaryDirectory directory;
  const SmallDisk disk(directory / "disk");
  if (!disk.ok()) GTEST_SKIP() << "cannot mount a tmpfs here: not root";
  const std::string checkpoints = directory / "disk/checkpoints";
  const Example first(1);
  ASSERT_EQ(save(checkpoints, first, state_at(1), {2, 1}).error, "");
  const std::string filler = directory / "disk/filler";
  for (int at = 1; at <= 6; ++at) {  // somebody else takes all space at the at-th write
    int writes = 0;
    const auto fill = [&](const char* call) {
      if (std::string(call) == "pwrite" && ++writes == at) {
        std::ofstream(filler) << std::string(9 << 20, 'x') << std::flush;
      }
      return 0;
    };
    const SaveReport report =
        save(checkpoints, Example(2, 500), state_at(2), {2, 1}, {.inject_rank = 1, .inject = fill});
    EXPECT_NE(report.error.find("No space left"), std::string::npos) << at << ": " << report.error;
    fs::remove(filler);
    expect_only_first(checkpoints, first);
  }
  EXPECT_EQ(save(checkpoints, Example(2, 500), state_at(2), {2, 1}).error, "") << "space is back";
}

TEST(SaveFaults, AnUnwritablePlace) {
  TemporaryDirectory directory;
  std::ofstream(directory / "file") << "not a directory";
  const SaveReport report = save(directory / "file/checkpoints", Example(1), state_at(1), {2, 1});
  EXPECT_NE(report.error.find("cannot make directory"), std::string::npos) << report.error;
}

TEST(SaveFaults, LeftoversOfAKilledSaveAreNoHindrance) {
  TemporaryDirectory directory;
  fs::create_directory(directory / temporary_name(1, 1));
  std::ofstream(directory / temporary_name(1, 1) + "/shard-0000.h5") << "half";
  const Example example(1);
  ASSERT_EQ(save(directory.path(), example, state_at(1)).error, "");
  expect_only_first(directory.path(), example);
}

TEST(SaveFaults, SavingAStepAgainReplacesIt) {
  TemporaryDirectory directory;
  ASSERT_EQ(save(directory.path(), Example(1), state_at(1)).error, "");
  fs::resize_file(directory / step_name(1) + "/shard-0000.h5", 100);
  const Example again(2);
  ASSERT_EQ(save(directory.path(), again, state_at(1, 2)).error, "");
  expect_only_first(directory.path(), again);
}

TEST(Retention, KeepsTheNewestWholeOnesAndNeverFewerThanTwo) {
  TemporaryDirectory directory;
  for (int step = 1; step <= 4; ++step) {
    const SaveReport report = save(directory.path(), Example(1), state_at(step), {}, {.keep = 1});
    ASSERT_EQ(report.error + report.warning, "");
    EXPECT_EQ(report.pruned, step > 2 ? std::vector{step_name(step - 2)} : std::vector<std::string>{});
  }
  EXPECT_EQ(names_in(directory.path()), (std::vector{step_name(3), step_name(4)}));
  // A damaged one does not count, so the one behind it stays.
  fs::resize_file(directory / step_name(4) + "/shard-0000.h5", 100);
  ASSERT_EQ(save(directory.path(), Example(1), state_at(5), {}, {.keep = 2}).error, "");
  EXPECT_EQ(names_in(directory.path()), (std::vector{step_name(3), step_name(4), step_name(5)}));
  // Behind two whole ones it goes, as does one without a manifest.
  fs::remove(directory / step_name(3) + "/" + kManifestName);
  ASSERT_EQ(save(directory.path(), Example(1), state_at(6), {}, {.keep = 2}).error, "");
  EXPECT_EQ(names_in(directory.path()), (std::vector{step_name(5), step_name(6)}));
}

TEST(Retention, ARunThatWentBackIsNewerThanWhatItLeftBehind) {
  TemporaryDirectory directory;
  for (const int step : {10, 20, 30}) ASSERT_EQ(save(directory.path(), Example(1), state_at(step)).error, "");
  const Example rewound(9);  // resumed from step 10 as the second attempt
  ASSERT_EQ(save(directory.path(), rewound, state_at(15, 2), {}, {.keep = 2}).error, "");
  const CheckpointSearch search = find_checkpoint(single_rank(), directory.path());
  EXPECT_EQ(search.found->path, directory / step_name(15));
  EXPECT_TRUE(holds(*search.found, rewound));
  EXPECT_EQ(names_in(directory.path()), (std::vector{step_name(15), step_name(30)}));
}
