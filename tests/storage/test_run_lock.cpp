// One run directory, one run: refused while held, free again after any end of the holder.
#include "storage/run_lock.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/host.hpp"
#include "base/temporary_directory.hpp"

using namespace pipefill;
using pipefill::TemporaryDirectory;

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

// NFS without a lock daemon, Lustre mounted with noflock.
TEST(RunLock, WithoutLocksTheTextDecides) {
  const std::array<RunLock::LockCall, 3> without{[](int, int) { return errno = ENOLCK, -1; },
                                                 [](int, int) { return errno = ENOSYS, -1; },
                                                 [](int, int) { return errno = EOPNOTSUPP, -1; }};
  for (const RunLock::LockCall lock : without) {
    TemporaryDirectory directory;
    {
      const RunLock first = RunLock::take(directory.path(), lock);
      EXPECT_NE(first.weakness().find("cannot lock " + (directory / "run.lock")), std::string::npos);
      try {
        RunLock::take(directory.path(), lock);
        FAIL() << "taken twice";
      } catch (const FileError& error) {
        EXPECT_EQ(error.code(), ExitCode::cannot_create);
        EXPECT_NE(std::string(error.what()).find("process " + std::to_string(getpid())), std::string::npos);
      }
    }
    EXPECT_NO_THROW(RunLock::take(directory.path(), lock)) << "released";
    std::ofstream(directory / "run.lock") << "elsewhere 4711 99\n";  // nobody can be asked
    EXPECT_THROW(RunLock::take(directory.path(), lock), FileError);
    std::ofstream(directory / "run.lock") << host_name() << " 1073741823 99\n";  // above any pid_max: gone
    EXPECT_NO_THROW(RunLock::take(directory.path(), lock));
  }
  TemporaryDirectory directory;
  EXPECT_EQ(RunLock::take(directory.path()).weakness(), "");
}

TEST(RunLock, AFailureThatIsNoAnswerIsAnError) {
  TemporaryDirectory directory;
  try {
    RunLock::take(directory.path(), [](int, int) { return errno = EIO, -1; });
    FAIL() << "taken";
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ExitCode::input_output);
  }
}
