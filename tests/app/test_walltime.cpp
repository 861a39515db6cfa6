// --max-time: what squeue says, and that nobody waits for one that says nothing.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "app/walltime.hpp"
#include "base/clock.hpp"
#include "base/temporary_directory.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

TEST(OutputOf, IsWhatTheProgramWrote) {
  EXPECT_EQ(output_of({"sh", "-c", "echo 1-02:03:04; echo noise >&2"}, 60s), "1-02:03:04");
  EXPECT_EQ(output_of({"sh", "-c", "exit 3"}, 60s), "");
  EXPECT_EQ(output_of({"pipefill-no-such-program"}, 60s), "");
}

TEST(OutputOf, IsNotWaitedForBeyondThePatience) {
  const TemporaryDirectory directory;
  const Nanoseconds start = now();
  EXPECT_EQ(output_of({"sh", "-c", "echo $$ > " + (directory / "pid") + "; echo half; exec sleep 300"}, 500ms),
            std::nullopt);
  EXPECT_LT(now() - start, 60s);
  int pid = 0;
  std::ifstream(directory / "pid") >> pid;
  ASSERT_GT(pid, 1);
  const Nanoseconds killed = now();
  while (kill(pid, 0) == 0 && std::filesystem::exists("/proc/" + std::to_string(pid) + "/exe") &&
         now() - killed < 60s) {
  }
  EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(pid) + "/exe")) << "it still runs";
}

TEST(SlurmTime, AsSqueuePrintsIt) {
  EXPECT_EQ(parse_slurm_time("1-02:03:04"), 26h + 3min + 4s);
  EXPECT_EQ(parse_slurm_time("3:50:00"), 3h + 50min);
  EXPECT_EQ(parse_slurm_time("UNLIMITED"), 0s);
  EXPECT_EQ(parse_slurm_time(""), 0s);
}

}  // namespace
}  // namespace pipefill
