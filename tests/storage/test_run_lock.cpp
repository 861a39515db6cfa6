// One run directory, one run: refused while held, free again after any end of the holder.
#include "storage/run_lock.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace pipefill;
using pipefill::testing::TemporaryDirectory;

TEST(RunLock, ASecondRunIsRefusedAndToldByWhom) {
  TemporaryDirectory directory;
  {
    const RunLock lock = RunLock::take(directory.path());
    EXPECT_EQ(lock.stale_holder(), "");
    try {
      RunLock::take(directory.path());
      FAIL() << "taken twice";
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ExitCode::cannot_create);
      EXPECT_NE(std::string(error.what()).find("process " + std::to_string(getpid())), std::string::npos)
          << error.what();
    }
  }
  EXPECT_EQ(RunLock::take(directory.path()).stale_holder(), "") << "a released lock leaves no holder behind";
}

TEST(RunLock, AKilledHolderIsRecognised) {
  TemporaryDirectory directory;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock = RunLock::take(directory.path());
    [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char told = 0;
  ASSERT_EQ(read(ready[0], &told, 1), 1);
  EXPECT_THROW(RunLock::take(directory.path()), FileError);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NE(RunLock::take(directory.path()).stale_holder().find("process " + std::to_string(child)), std::string::npos);
}

TEST(RunLock, AnUnwritableDirectoryAndALinkAreRefused) {
  TemporaryDirectory directory;
  EXPECT_THROW(RunLock::take(directory / "none"), FileError);
  std::ofstream(directory / "target") << "precious";
  std::filesystem::create_symlink(directory / "target", directory / "run.lock");
  EXPECT_THROW(RunLock::take(directory.path()), FileError);
  EXPECT_EQ(std::filesystem::file_size(directory / "target"), 8u);
}
