// trace/trace: nothing recorded is lost without being counted; segments survive whatever ends the process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/clock.hpp"
#include "base/temporary_directory.hpp"
#include "tests/trace/trace_samples.hpp"
#include "trace/merge.hpp"
#include "trace/segment_name.hpp"
#include "trace/summary.hpp"

namespace pipefill {
namespace {

using testing::CollectingSink;
using testing::LogLines;
using testing::sample_event;
using testing::sample_rank;
using testing::sample_run;

constexpr Nanoseconds kMillisecond{1'000'000};

template <class Condition>
bool eventually(Condition&& condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5 * kMillisecond);
  }
  return false;
}

TEST(Trace, ADisabledOneCostsNothingAndWritesNothing) {
  Trace trace;
  EXPECT_FALSE(trace.enabled());
  trace.record(Event{});
  trace.finish_step({});
  trace.close(Nanoseconds(1), std::nullopt);
  EXPECT_EQ(trace.statistics().recorded, 0);
}

TEST(Trace, WritesEverySegmentAndLosesNothing) {
  const TemporaryDirectory directory;
  Hdf5Thread hdf5;
  constexpr int kEvents = 30'000;
  Trace trace({.directory = directory.path(),
               .segment = 20 * kMillisecond,
               .ring_events = 1 << 16,
               .gather_every = kMillisecond},
              sample_run(1), sample_rank(0), hdf5, make_null_log());
  for (int i = 0; i < kEvents; ++i) {
    trace.record(sample_event(EventKind::forward, 1000 + i, 1001 + i, 1 + i / 1000));
    if (i % 1000 == 999)
      trace.finish_step({.step = 1 + i / 1000, .start = Nanoseconds(i - 999), .end = Nanoseconds(i)});
    if (i == kEvents / 2) {
      ASSERT_TRUE(eventually([&] { return trace.statistics().segments >= 1; }));
    }
  }
  trace.close(Nanoseconds(1000 + kEvents), ClockOffset{Nanoseconds(2000), {}, Nanoseconds(7)});
  const TraceStatistics statistics = trace.statistics();
  EXPECT_EQ(statistics.recorded, kEvents);
  EXPECT_EQ(statistics.dropped, 0);
  EXPECT_GT(statistics.writer_cpu.count(), 0);
  EXPECT_EQ(static_cast<std::int64_t>(list_segments(directory.path()).size()), statistics.segments);

  CollectingSink sink;
  EXPECT_TRUE(read_trace(directory.path(), sink).all().empty());
  ASSERT_EQ(sink.event_rows.size(), static_cast<std::size_t>(kEvents));
  for (int i = 0; i < kEvents; ++i) ASSERT_EQ(sink.event_rows[i].start_ns, i);  // since the rank's start at 1000
  EXPECT_EQ(sink.step_rows.size(), 30u);
  ASSERT_EQ(sink.rank_rows.size(), 1u);
  EXPECT_EQ(sink.rank_rows[0].end_ns, kEvents);
  EXPECT_EQ(text(sink.rank_rows[0].host), "node1");
  EXPECT_EQ(sink.rank_rows[0].clock_end_uncertainty_ns, 7);
}

TEST(Trace, AFullRingDropsCountsAndSaysSoOnce) {
  const TemporaryDirectory directory;
  Hdf5Thread hdf5;
  const auto lines = std::make_shared<LogLines>();
  Trace trace({.directory = directory.path(), .ring_events = 64, .gather_every = 100 * kMillisecond}, sample_run(1),
              sample_rank(0), hdf5, std::make_shared<spdlog::logger>("test", lines));
  constexpr int kEvents = 100'000;
  for (int i = 0; i < kEvents; ++i) trace.record(sample_event(EventKind::forward, i, i + 1));
  trace.close(Nanoseconds(kEvents), std::nullopt);
  const TraceStatistics statistics = trace.statistics();
  EXPECT_EQ(statistics.recorded, kEvents);
  EXPECT_GT(statistics.dropped, 0);
  EXPECT_EQ(lines->lines().size(), 1u);
  Summarizer summarizer;
  read_trace(directory.path(), summarizer);
  const Summary summary = summarizer.finish();
  EXPECT_EQ(summary.events + summary.events_dropped, kEvents);
  EXPECT_EQ(summary.events_dropped, statistics.dropped);
}

TEST(Trace, AFullDiskDropsCountsAndTheRunGoesOn) {
  const TemporaryDirectory directory;
  Hdf5Thread hdf5;
  const auto lines = std::make_shared<LogLines>();
  auto full = std::make_shared<std::atomic<bool>>(true);
  auto failures = std::make_shared<std::atomic<int>>(0);
  const auto inject = [full, failures](const char* call) {
    if (!*full || std::string(call) != "pwrite") return 0;
    ++*failures;
    return ENOSPC;
  };
  Trace trace({.directory = directory.path(), .segment = kMillisecond, .gather_every = kMillisecond, .inject = inject},
              sample_run(1), sample_rank(0), hdf5, std::make_shared<spdlog::logger>("test", lines));
  int recorded = 0;
  ASSERT_TRUE(eventually([&] {  // until at least two segments have been lost
    trace.record(sample_event(EventKind::forward, recorded, recorded + 1));
    ++recorded;
    return trace.statistics().dropped >= 2 && lines->lines().size() == 1;
  }));
  *full = false;
  for (int i = 0; i < 100; ++i) trace.record(sample_event(EventKind::backward, recorded + i, recorded + i + 1));
  trace.close(Nanoseconds(recorded + 100), std::nullopt);
  EXPECT_GT(failures->load(), 0);
  EXPECT_EQ(lines->lines().size(), 1u);
  EXPECT_NE(lines->lines()[0].find("No space left"), std::string::npos) << lines->lines()[0];

  Summarizer summarizer;
  EXPECT_TRUE(read_trace(directory.path(), summarizer).all().empty());  // no gap in the numbers, no remains
  const Summary summary = summarizer.finish();
  EXPECT_GE(summary.events, 100);
  EXPECT_EQ(summary.events + summary.events_dropped, recorded + 100);
  EXPECT_NE(summary_text(summary).find("dropped"), std::string::npos);
}

TEST(Trace, FillWorkOfALaterSegmentFindsItsPlaceAndJobsKeepTheirNames) {
  const TemporaryDirectory directory;
  Hdf5Thread hdf5;
  auto full = std::make_shared<std::atomic<bool>>(true);
  const auto inject = [full](const char* call) { return *full && std::string(call) == "pwrite" ? ENOSPC : 0; };
  Trace trace({.directory = directory.path(), .segment = kMillisecond, .gather_every = kMillisecond, .inject = inject},
              sample_run(1), sample_rank(0), hdf5, make_null_log());
  trace.name_job({.job = 4, .name = "letters", .kind = "score", .configuration = "", .chunks = 12});
  trace.record(sample_event(EventKind::other, 1000, 1100, -1));
  ASSERT_TRUE(eventually([&] { return trace.statistics().dropped == 1; }));  // the segment with the name is lost
  *full = false;
  ASSERT_TRUE(eventually([&] { return trace.statistics().segments == 1; }));  // the name again
  trace.record(sample_event(EventKind::bubble_steady, 1100, 1200));
  trace.record(sample_event(EventKind::forward, 1200, 1300));
  ASSERT_TRUE(eventually([&] { return trace.statistics().segments >= 2; }));  // closed before the chunk is recorded
  Event chunk = sample_event(EventKind::fill, 1100, 1150);
  chunk.job = 4;
  trace.record(chunk);
  trace.close(Nanoseconds(1300), std::nullopt);
  EXPECT_GE(list_segments(directory.path()).size(), 3u);

  CollectingSink sink;
  EXPECT_TRUE(read_trace(directory.path(), sink).all().empty());
  ASSERT_EQ(sink.event_rows.size(), 3u);
  EXPECT_EQ(sink.event_rows[1].kind, static_cast<int>(EventKind::fill));
  ASSERT_FALSE(sink.job_rows.empty());
  EXPECT_EQ(sink.job_rows.back().job, 4);
  EXPECT_EQ(text(sink.job_rows.back().name), "letters");
  EXPECT_EQ(sink.job_rows.back().chunks, 12);
  EXPECT_EQ(sink.rank_rows.at(0).last_event_ns, 300);  // of the forward, although the chunk came last
}

TEST(Trace, AfterAKillAllUpToTheLastSegmentIsReadable) {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Hdf5Thread hdf5;
    Trace trace({.directory = directory.path(), .segment = 10 * kMillisecond, .gather_every = kMillisecond},
                sample_run(1), sample_rank(0), hdf5, make_null_log());
    for (int i = 0; i < 100'000; ++i) {
      trace.record(sample_event(EventKind::forward, 1000 + 10 * i, 1010 + 10 * i));
      std::this_thread::sleep_for(Nanoseconds(200'000));
    }
    ::_exit(1);
  }
  const bool written = eventually([&] { return list_segments(directory.path()).size() >= 3; });
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(written);
  ASSERT_TRUE(WIFSIGNALED(status));

  CollectingSink sink;
  EXPECT_TRUE(read_trace(directory.path(), sink).all().empty());
  ASSERT_GT(sink.event_rows.size(), 0u);
  for (std::size_t i = 0; i < sink.event_rows.size(); ++i)
    ASSERT_EQ(sink.event_rows[i].start_ns, static_cast<std::int64_t>(10 * i));
  ASSERT_EQ(sink.rank_rows.size(), 1u);
  EXPECT_EQ(sink.rank_rows[0].end_ns, -1);
  EXPECT_EQ(sink.rank_rows[0].last_event_ns, sink.event_rows.back().end_ns);
  EXPECT_NO_THROW(merge_trace(directory.path()));

  // The next attempt goes on with the numbers and does not touch what is there.
  const std::size_t before = list_segments(directory.path()).size();
  {
    Hdf5Thread hdf5;
    RunDescription again = sample_run(1);
    again.attempt = 2;
    Trace trace({.directory = directory.path()}, again, sample_rank(0), hdf5, make_null_log());
    trace.record(sample_event(EventKind::forward, 1000, 1010));
    trace.close(Nanoseconds(1020), std::nullopt);
  }
  EXPECT_EQ(list_segments(directory.path()).size(), before + 1);
  CollectingSink both;
  EXPECT_TRUE(read_trace(directory.path(), both).all().empty());  // trace.h5 is older than the newest segment
  EXPECT_EQ(both.event_rows.size(), sink.event_rows.size() + 1);
  EXPECT_GE(both.event_rows.back().start_ns, sink.event_rows.back().end_ns);  // attempts follow one another
}

TEST(Trace, WithoutCloseTheRestIsWrittenAndTheEndUnknown) {
  const TemporaryDirectory directory;
  Hdf5Thread hdf5;
  {
    Trace trace({.directory = directory.path()}, sample_run(1), sample_rank(0), hdf5, make_null_log());
    trace.record(sample_event(EventKind::forward, 1000, 1500));
  }
  CollectingSink sink;
  read_trace(directory.path(), sink);
  EXPECT_EQ(sink.event_rows.size(), 1u);
  EXPECT_EQ(sink.rank_rows.at(0).end_ns, -1);
}

}  // namespace
}  // namespace pipefill
