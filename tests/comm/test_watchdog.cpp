// The watchdog over forked children that share a board, without MPI. Limits are short; no absolute time is asserted.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>

#include "comm/watchdog.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

/// Leaves the calling process one core and, on it, only what nobody else wants. `core`: of those allowed.
void run_last_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  const sched_param none{};
  if (sched_setaffinity(0, sizeof one, &one) != 0 || sched_setscheduler(0, SCHED_IDLE, &none) != 0) _exit(1);
}

int some_allowed_core() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) return core;
  return 0;
}

/// Keeps one core busy at the ordinary priority.
class Hog {
 public:
  explicit Hog(int core) : pid_(fork()) {
    if (pid_ != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) _exit(1);
    for (;;) asm volatile("");
  }
  ~Hog() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

/// Rank 1 as a child process that beats its heart, and moves on unless told to be `stuck`. With `spinning_on` it never
/// sleeps, and takes only what that core has to spare.
class Child {
 public:
  Child(LivenessBoard& board, ActivityKind activity, bool stuck, std::optional<int> spinning_on = std::nullopt)
      : pid_(fork()) {
    if (pid_ != 0) {
      while (board.state({1}).pid != pid_) usleep(1000);
      return;
    }
    if (spinning_on) run_last_on(*spinning_on);
    LivenessBoard mine = board.view({1});
    mine.step(4);
    mine.doing({activity, 1, 6});
    mine.waiting(stuck ? WaitSubject{} : WaitSubject{WaitKind::receive, {0}, {Channel::gradient, 1, {2}}, 4});
    for (;;) {
      mine.beat();
      if (!spinning_on) usleep(10'000);
      if (mine.state({0}).finished) {  // the test's word to leave on purpose
        mine.finish();
        _exit(0);
      }
    }
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

/// Collects what the watchdog reports.
class Losses {
 public:
  void operator()(const Loss& loss) {
    const std::lock_guard lock(mutex_);
    losses_.push_back(loss);
    changed_.notify_all();
  }
  std::optional<Loss> first(Nanoseconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return !losses_.empty(); });
    return losses_.empty() ? std::nullopt : std::optional(losses_.front());
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Loss> losses_;
};

class WatchdogTest : public testing::Test {
 protected:
  std::unique_ptr<Watchdog> watch(std::optional<Nanoseconds> limit) {
    auto watchdog = std::make_unique<Watchdog>(board_, ProcessLayout{2, 1}, make_null_log(),
                                               [this](const Loss& loss) { losses_(loss); });
    if (limit) watchdog->set_limit(*limit);
    return watchdog;
  }
  LivenessBoard board_{{{0}, {1}}, {0}};
  Losses losses_;
};

TEST_F(WatchdogTest, NamesAKilledRankAndBothSidesLastWords) {
  Child child(board_, ActivityKind::bubble, false);
  board_.step(5);
  board_.doing({ActivityKind::optimizer});
  board_.waiting({WaitKind::receive, {1}, {Channel::activation, 0, {3}}, 5});
  const auto watchdog = watch(std::nullopt);
  kill(child.pid(), SIGKILL);
  const auto loss = losses_.first(10s);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->kind, LossKind::died);
  EXPECT_EQ(loss->peer.rank, RankId{1});
  EXPECT_EQ(loss->text,
            "rank 1 (stage 1), pid " + std::to_string(child.pid()) +
                ", died; it was last in step 4, bubble of microbatch 6 in chunk 1, waiting for the gradient of "
                "microbatch 2 for chunk 1 from rank 0 (stage 0). This rank, rank 0 (stage 0), was in step 5, "
                "optimizer, waiting for the activation of microbatch 3 for chunk 0 from rank 1 (stage 1). The "
                "run is ended; start it again to resume from the last checkpoint");
}

TEST_F(WatchdogTest, NamesARankThatDiedBeforeTheWatchBegan) {
  pid_t pid = 0;
  {
    Child child(board_, ActivityKind::forward, false);
    pid = child.pid();
  }
  const auto watchdog = watch(std::nullopt);
  const auto loss = losses_.first(10s);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->kind, LossKind::died);
  EXPECT_EQ(loss->peer.pid, pid);
}

TEST_F(WatchdogTest, NamesAStoppedRank) {
  Child child(board_, ActivityKind::forward, false);
  const auto watchdog = watch(600ms);
  kill(child.pid(), SIGSTOP);
  const auto loss = losses_.first(20s);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->kind, LossKind::hung);
  EXPECT_NE(loss->text.find("its process is stopped"), std::string::npos) << loss->text;
}

TEST_F(WatchdogTest, NamesARankThatNeitherWorksNorWaits) {
  Child child(board_, ActivityKind::forward, true);
  const auto watchdog = watch(600ms);
  const auto loss = losses_.first(20s);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->kind, LossKind::hung);
  EXPECT_EQ(loss->text.find("stopped"), std::string::npos) << loss->text;
}

TEST_F(WatchdogTest, NamesARankThatSpinsWithoutProgress) {
  Child child(board_, ActivityKind::forward, true, some_allowed_core());
  const auto watchdog = watch(2s);
  const auto loss = losses_.first(60s);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->kind, LossKind::hung);
}

TEST_F(WatchdogTest, ARankThatIsGivenNoProcessorIsNotHung) {
  const int core = some_allowed_core();
  Child child(board_, ActivityKind::forward, true, core);
  const Hog hog(core);
  const auto watchdog = watch(2s);
  EXPECT_FALSE(losses_.first(6s));
}

TEST_F(WatchdogTest, AWaitIsNoHang) {
  Child child(board_, ActivityKind::forward, false);
  const auto watchdog = watch(600ms);
  EXPECT_FALSE(losses_.first(1500ms));
}

TEST_F(WatchdogTest, ALongCheckpointIsNoHang) {
  Child child(board_, ActivityKind::checkpoint, true);
  const auto watchdog = watch(600ms);
  EXPECT_FALSE(losses_.first(1500ms));
}

TEST_F(WatchdogTest, NoProgressIsNotJudgedBeforeTheStepTimeIsKnown) {
  Child child(board_, ActivityKind::forward, true);
  const auto watchdog = watch(std::nullopt);
  EXPECT_FALSE(losses_.first(1500ms));
}

TEST_F(WatchdogTest, ARankThatLeavesOnPurposeIsNoLoss) {
  Child child(board_, ActivityKind::forward, false);
  const auto watchdog = watch(600ms);
  board_.finish();
  ASSERT_EQ(waitpid(child.pid(), nullptr, 0), child.pid());
  EXPECT_FALSE(losses_.first(1500ms));
}

}  // namespace
}  // namespace pipefill
