// The channel's words between two views of one block, without a worker behind them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "worker/channel.hpp"
#include "worker/chunk_times.hpp"

namespace pipefill::testing {
namespace {

using namespace std::chrono_literals;

TEST(WorkerChannel, CommandsAreServedOneByOne) {
  WorkerChannel rank = WorkerChannel::create();
  WorkerChannel worker = rank.share();
  EXPECT_FALSE(worker.posted());
  ASSERT_TRUE(rank.post(WorkerCommand::assign, 7, "/run/fill/a", "batch=2"));
  EXPECT_FALSE(rank.post(WorkerCommand::save));
  const auto posted = worker.posted();
  ASSERT_TRUE(posted);
  EXPECT_EQ(posted->command, WorkerCommand::assign);
  EXPECT_EQ(posted->serial, 7U);
  EXPECT_EQ(posted->directory, "/run/fill/a");
  EXPECT_EQ(posted->configuration, "batch=2");
  worker.answer();
  EXPECT_TRUE(rank.answered());
  EXPECT_TRUE(rank.post(WorkerCommand::save));
}

TEST(WorkerChannel, AStopMeansItsGrantAndNotTheNext) {
  WorkerChannel rank = WorkerChannel::create();
  WorkerChannel worker = rank.share();
  const std::uint64_t first = rank.grant(Nanoseconds{5}, Bytes{6});
  EXPECT_FALSE(rank.parked());
  rank.stop();
  const std::uint64_t second = rank.grant(kNoDeadline, Bytes{7});
  EXPECT_TRUE(worker.must_stop(first));
  EXPECT_FALSE(worker.must_stop(second));
  worker.park(first, ParkReason::stopped, WorkerPhase::parked);
  EXPECT_FALSE(rank.parked()) << "the second grant waits for it";
  EXPECT_EQ(worker.granted().memory, Bytes{7});
  worker.park(second, ParkReason::memory, WorkerPhase::parked);
  EXPECT_TRUE(rank.parked());
  EXPECT_EQ(rank.park_reason(), ParkReason::memory);
}

TEST(WorkerChannel, NoRecordIsLostAndTheRingSaysWhenItIsFull) {
  WorkerChannel rank = WorkerChannel::create();
  WorkerChannel worker = rank.share();
  std::vector<ChunkRecord> records;
  std::int64_t chunk = 0;
  for (int round = 0; round < 3; ++round) {
    std::size_t written = 0;
    for (; worker.room_for_record(); ++written) worker.record({.chunk = chunk++});
    EXPECT_EQ(written, kChannelRecords);
    rank.drain(records);
  }
  ASSERT_EQ(records.size(), 3 * kChannelRecords);
  for (std::size_t i = 0; i < records.size(); ++i) ASSERT_EQ(records[i].chunk, static_cast<std::int64_t>(i));
}

TEST(WorkerChannel, EveryWaitHasATimeOutAndNewsWake) {
  WorkerChannel rank = WorkerChannel::create();
  WorkerChannel worker = rank.share();
  const std::uint32_t ticket = rank.ticket();
  EXPECT_EQ(rank.wait_news(ticket, 5ms), FutexWake::timed_out);
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    worker.record({});
  });
  EXPECT_EQ(rank.wait_news(ticket, 30s), FutexWake::changed);
  later.join();
  EXPECT_EQ(rank.wait_news(ticket, 30s), FutexWake::changed) << "an old ticket never sleeps";
}

TEST(WorkerChannel, TheRankSleepsOverChunksWhileItsDoorbellIsSilent) {
  WorkerChannel rank = WorkerChannel::create();
  WorkerChannel worker = rank.share();
  std::atomic<std::uint32_t> bell{41};
  const auto told = [&] {
    const std::uint32_t before = rank.ticket();
    worker.record({});
    return rank.ticket() != before;
  };
  rank.grant(kNoDeadline, Bytes{0});
  rank.set_heard(41);
  EXPECT_TRUE(told()) << "a worker without a doorbell tells all";
  worker.set_doorbell(&bell);
  EXPECT_FALSE(told());
  bell = 42;
  EXPECT_TRUE(told());
  EXPECT_TRUE(told()) << "until the rank says that it has heard";
  rank.set_heard(42);
  EXPECT_FALSE(told());
  const std::uint32_t before = rank.ticket();
  worker.park(1, ParkReason::deadline, WorkerPhase::parked);
  EXPECT_NE(rank.ticket(), before) << "everything else is told";
  rank.grant(kNoDeadline, Bytes{0});
  EXPECT_TRUE(told()) << "a new grant begins with telling";
  rank.set_heard(42);
  rank.set_heard(std::nullopt);
  EXPECT_TRUE(told());
}

TEST(WorkerChannel, AWorkerCannotShortenIt) {
  const WorkerChannel rank = WorkerChannel::create();
  EXPECT_NE(::ftruncate(rank.descriptor(), 0), 0);
}

TEST(WorkerChannel, AnotherDescriptorIsRefused) {
  EXPECT_THROW(WorkerChannel::attach(FileDescriptor(::dup(0))), FileError);
}

TEST(WorkerChannel, ReportsComeWhole) {
  WorkerChannel rank = WorkerChannel::create();
  WorkerChannel worker = rank.share();
  std::atomic<bool> end{false};
  std::thread writer([&] {
    for (std::int64_t i = 1; !end; ++i) worker.write_report({.chunks = i, .done = i, .memory_bytes = i});
  });
  for (int i = 0; i < 20'000; ++i) {
    const JobReport report = rank.report();
    if (report.chunks != report.done || report.done != report.memory_bytes) {
      ADD_FAILURE() << "torn";
      break;
    }
  }
  end = true;
  writer.join();
}

TEST(ChunkTimes, MedianOfTheClassAndRateBeforeIt) {
  ChunkTimes times;
  const pipefill_fill_chunk small{sizeof(pipefill_fill_chunk), 0, 1e6, 0, 0, 1},
      large{sizeof(pipefill_fill_chunk), 1, 4e6, 0, 0, 1};
  EXPECT_FALSE(times.measured(small));
  for (const int us : {100, 100, 900, 100, 110}) times.add(small, std::chrono::microseconds(us));
  EXPECT_EQ(times.predict(small), 100us);
  EXPECT_FALSE(times.measured(large));
  EXPECT_EQ(times.predict(large), 440us);  // at the rate of the last chunk
  for (int i = 0; i < 15; ++i) times.add(small, 300us);
  EXPECT_EQ(times.predict(small), 300us) << "it follows";
}

}  // namespace
}  // namespace pipefill::testing
