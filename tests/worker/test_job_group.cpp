// worker/job_group: what several processes of a job take together is limited, each of them being within the limit.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/content.hpp"
#include "worker/job_group.hpp"

namespace pipefill::testing {
namespace {

constexpr int kNoGroup = 77;

/// A process that takes so much memory and keeps it until its parent is gone.
void take(std::size_t bytes) {
  if (::fork() != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (std::size_t at = 0; memory != MAP_FAILED && at < bytes; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
  ::sleep(60);
  ::_exit(0);
}

TEST(JobGroup, WhatAllProcessesOfAJobTakeTogetherIsLimited) {
  const pid_t worker = ::fork();
  if (worker == 0) {
    const JobGroup group({.memory = Bytes{48 << 20}});
    if (!group.counts_memory()) ::_exit(kNoGroup);
    take(40U << 20U);
    take(40U << 20U);
    int status = 0;
    ::wait(&status);
    ::_exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && group.killed_for_memory() > 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(worker, &status, 0), worker);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoGroup) GTEST_SKIP() << "no memory cgroup can be made here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_GT(JobGroup::killed_for_memory(worker), 0) << "the rank sees it too";
  for (int i = 0; i < 60 && JobGroup::killed_for_memory(worker) > 0; ++i)  // those that it started must be gone
    JobGroup::remove_of(worker);
  EXPECT_EQ(JobGroup::killed_for_memory(worker), 0) << "its group is removed";
}

TEST(JobGroup, TheWorkerGoesBackToWhereItWas) {
  const pid_t worker = ::fork();
  if (worker == 0) {
    const std::string before = content("/proc/self/cgroup");
    bool moved = false;
    {
      const JobGroup group({.memory = Bytes{48 << 20}, .processes = 4});
      if (!group.counts_memory()) ::_exit(kNoGroup);
      moved = content("/proc/self/cgroup") != before;
    }
    ::_exit(moved && content("/proc/self/cgroup") == before ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(worker, &status, 0), worker);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoGroup) GTEST_SKIP() << "no memory cgroup can be made here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace pipefill::testing
