// A worker under its supervisor: what takes longer than it should, outside of chunks and in them.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "comm/doorbells.hpp"
#include "storage/atomic_file.hpp"
#include "worker_fixture.hpp"

namespace pipefill::testing {
namespace {

TEST_F(WorkerTest, WhatWasMeasuredOnABusyMachineIsNotBelievedForEver) {
  // Fifteen chunks of 20 ms, then all of 0.2, but nobody knows: no bubble of 5 ms seems long enough.
  const std::string job = make_job("a", "counting", "{chunks: 1000, chunk_us: 200, fault: slow_start}");
  Supervisor supervisor(settings(), make_null_log());
  supervisor.assign(job, "");
  bubbles(
      supervisor, [&] { return supervisor.job().done >= 15; }, 100ms);
  const std::int64_t before = supervisor.job().done;
  for (const Nanoseconds limit = now() + 30s; supervisor.job().done < before + 50 && now() < limit;) {
    const Nanoseconds end = now() + 5ms;
    supervisor.grant(end, Bytes{1 << 30});
    while (now() < end && !supervisor.parked()) supervisor.wait_news(end - now());
    supervisor.stop();
  }
  EXPECT_GE(supervisor.job().done, before + 50);
}

class EveryHangWithoutAChunk : public WorkerTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryHangWithoutAChunk, IsKilledRetriedAndQuarantined) {
  const std::string job = make_job("bad", "counting", std::string("{chunks: 6, fault: ") + GetParam() + "}");
  SupervisorSettings s = settings();
  s.prepare = 300ms;
  Supervisor supervisor(s, make_null_log());
  supervisor.assign(job, "");
  until_over(supervisor, 20ms);
  const JobState state = state_of(job);
  EXPECT_EQ(state.status, JobStatus::quarantined);
  EXPECT_EQ(state.failures, 3);
  EXPECT_NE(state.message.find("not made, restored or saved within"), std::string::npos) << state.message;
  EXPECT_EQ(supervisor.restarts(), 3);
  const std::string good = make_job("good", "counting", "{chunks: 5}");
  supervisor.assign(good, "");
  until_over(supervisor);
  EXPECT_EQ(content(good + "/result"), std::to_string(expected_result(5)));
}
INSTANTIATE_TEST_SUITE_P(Faults, EveryHangWithoutAChunk, ::testing::Values("create_hang", "restore_hang"),
                         [](const auto& fault) { return std::string(fault.param); });

TEST_F(WorkerTest, AProcessLooksAtTheDoorbellOfItsRank) {
  const FileDescriptor memory(::memfd_create("bell", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memory.get(), 4096), 0);
  constexpr std::int64_t kOffset = 64;
  void* const mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto& bell = *reinterpret_cast<Doorbell*>(static_cast<char*>(mapped) + kOffset);
  SupervisorSettings s = settings();
  s.doorbell = {memory.get(), kOffset, &bell};
  Supervisor supervisor(s, make_null_log());
  supervisor.assign(make_job("a", "counting", "{chunks: 1000000, chunk_us: 200}"), "");
  bubbles(supervisor, [&] { return supervisor.job().done > 20; });
  // How often the rank is woken in a bubble of 40 ms, when it has heard so many rings.
  const auto woken = [&](std::uint32_t heard) {
    int times = 0;
    const Nanoseconds end = now() + 40ms;
    supervisor.grant(kNoDeadline, Bytes{1 << 30});
    while (now() < end) {
      supervisor.set_heard(heard);
      times += supervisor.wait_news(end - now()) == FutexWake::changed ? 1 : 0;
    }
    supervisor.stop();
    return times;
  };
  bell = 7;
  int all = 0;  // of three bubbles: somebody else may want the core
  for (int i = 0; i < 3; ++i) all = std::max(all, woken(6));
  EXPECT_GT(all, 10) << "one ring was not heard: every chunk's end is told";
  const auto once_in_five = [&](auto&& holds) {
    for (int i = 0; i < 5; ++i)
      if (holds()) return true;
    return false;
  };
  EXPECT_TRUE(once_in_five([&] { return woken(7) < all / 3; })) << "nothing came: no chunk's end is told";
  bell = 8;
  EXPECT_TRUE(once_in_five([&] { return woken(7) > all / 2; }));
  ::munmap(mapped, 4096);
}

/// Bubbles with a deadline, in which chunks begin that are thought to fit.
void deadline_bubbles(Supervisor& supervisor, const std::function<bool()>& over) {
  for (const Nanoseconds limit = now() + 60s; !over() && now() < limit;) {
    const Nanoseconds end = now() + 4ms;
    supervisor.grant(end, Bytes{1 << 30});
    while (now() < end + 1ms && !supervisor.parked()) supervisor.wait_news(end + 1ms - now());
    supervisor.stop();
  }
}

TEST_F(WorkerTest, ChunksThatOverrunAgainAndAgainAreAFailure) {
  // A third of the chunks takes 20 ms, the others of their class 0.2: the median says that they fit.
  const std::string job = make_job("a", "counting", "{chunks: 1000, chunk_us: 200, fault: uneven, fault_at: -1}");
  SupervisorSettings s = settings();
  s.grace = 500us;
  s.overruns = 5, s.overrun_share = 0.2;
  Supervisor supervisor(s, make_null_log());
  supervisor.assign(job, "");
  deadline_bubbles(supervisor, [&] { return supervisor.job().state == AssignedState::quarantined; });
  const JobState state = state_of(job);
  EXPECT_EQ(state.status, JobStatus::quarantined) << state.done;
  EXPECT_NE(state.message.find("ran past their deadline"), std::string::npos) << state.message;
}

TEST_F(WorkerTest, ABubbleThatEndsEarlyIsNotTheJobsFault) {
  const std::string job = make_job("a", "counting", "{chunks: 1000, chunk_us: 3000}");
  SupervisorSettings s = settings();
  s.grace = 500us;
  s.overruns = 5, s.overrun_share = 0.1;
  Supervisor supervisor(s, make_null_log());
  supervisor.assign(job, "");
  bubbles(supervisor, [&] { return supervisor.job().done > 3; });
  for (int i = 0; i < 40; ++i) {
    supervisor.grant(now() + 50ms, Bytes{1 << 30});
    supervisor.wait_news(1ms);
    supervisor.stop();
  }
  EXPECT_GT(supervisor.hard_stops(), 5);
  EXPECT_EQ(supervisor.job().failures, 0) << supervisor.job().message;
}

}  // namespace
}  // namespace pipefill::testing
