// trace/merge: many ranks' segments become one file, in order, on one clock; what is missing or damaged is named.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "tests/trace/trace_samples.hpp"
#include "trace/merge.hpp"
#include "trace/segment_name.hpp"
#include "trace/segments.hpp"
#include "trace/summary.hpp"
#include "trace/time_axis.hpp"
#include "trace/trace_file.hpp"

namespace pipefill {
namespace {

using testing::CollectingSink;
using testing::sample_event;
using testing::sample_rank;
using testing::sample_run;

/// `ranks` ranks, of which the odd ones record nothing; rank r's clock is r ms behind rank 0's.
void write_ranks(const std::string& directory, int ranks) {
  Hdf5Thread hdf5;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t start = 5'000'000'000 - rank * 1'000'000;
    RankDescription description = sample_rank(rank, Nanoseconds(start));
    description.clock = {Nanoseconds(start), Nanoseconds(rank * 1'000'000), Nanoseconds(10)};
    Trace trace({.directory = directory}, sample_run(ranks), description, hdf5, make_null_log());
    if (rank % 2 == 0) {
      trace.name_job({.job = 1, .name = "letters", .kind = "score", .configuration = ""});
      trace.record(sample_event(EventKind::bubble_warm_up, start + 100, start + 200, 1, 2));
      trace.record(sample_event(EventKind::forward, start + 200, start + 300));
      Event chunk = sample_event(EventKind::fill, start + 120, start + 180);  // known at the end of the step only
      chunk.job = 1;
      chunk.cost_class = 0;
      trace.record(chunk);
      trace.name_job({.job = 1, .name = "letters", .kind = "score", .configuration = "b4", .chunks = 9, .samples = 18});
      trace.finish_step({.step = 1,
                         .start = Nanoseconds(start + 100),
                         .end = Nanoseconds(start + 300),
                         .tokens = 8,
                         .filled = 1,
                         .pair = 5});
    }
    trace.close(Nanoseconds(start + 400), std::nullopt);
  }
}

TEST(Merge, FiveRanksSomeWithoutEvents) {
  const TemporaryDirectory directory;
  write_ranks(directory.path(), 5);
  const MergeReport report = merge_trace(directory.path());
  EXPECT_EQ(report.segments, 5);
  EXPECT_EQ(report.events, 9);
  EXPECT_TRUE(report.problems.all().empty());

  CollectingSink sink;
  EXPECT_TRUE(read_trace(report.file, sink).all().empty());
  ASSERT_EQ(sink.event_rows.size(), 9u);
  ASSERT_EQ(sink.rank_rows.size(), 5u);
  const std::int64_t starts[] = {100, 120, 200};  // offsets taken out, sorted by start
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(sink.event_rows[i].rank, static_cast<int>(i / 3 * 2));
    EXPECT_EQ(sink.event_rows[i].start_ns, starts[i % 3]);
  }
  for (const RankRow& row : sink.rank_rows) {
    EXPECT_EQ(row.start_ns, 0);
    EXPECT_EQ(row.end_ns, 400);
  }
  const TraceFileReader reader(report.file);
  EXPECT_EQ(reader.content(), TraceContent::run);
  const auto jobs = reader.read<FillJobRow>(0, 10);
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(text(jobs[0].name), "letters");
  EXPECT_EQ(text(jobs[0].configuration), "b4");
  EXPECT_EQ(jobs[0].chunks, 9);
  EXPECT_EQ(jobs[0].done, 3);
  EXPECT_EQ(jobs[0].fill_ns, 180);
  EXPECT_EQ(jobs[0].unpriced, 3);
  ASSERT_EQ(sink.step_rows.size(), 3u);
  EXPECT_EQ(sink.step_rows[0].filled, 1);
  EXPECT_EQ(sink.step_rows[0].pair, 5);
  EXPECT_EQ(sink.event_rows[1].cost_class, 0);
  const auto bubbles = reader.read<BubbleRow>(0, 10);
  ASSERT_EQ(bubbles.size(), 3u);
  EXPECT_EQ(bubbles[1].stage, 2);
  EXPECT_EQ(bubbles[1].median_ns, 100);
}

int run_quietly(const std::string& command) {
  const int status = std::system((command + " 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Merge, UsersReadItWithH5pyPandasAndH5dump) {
  const TemporaryDirectory directory;
  write_ranks(directory.path(), 5);
  const std::string file = merge_trace(directory.path()).file;
  const std::string python = "/usr/bin/python3 " PIPEFILL_SOURCE_DIR "/tests/trace/read_with_pandas.py ";
  const int with_pandas = run_quietly(python + file);
  const int with_h5dump = run_quietly("command -v h5dump > /dev/null || exit 77; h5dump -H " + file + " > /dev/null");
  EXPECT_TRUE(with_pandas == 0 || with_pandas == 77) << with_pandas;
  EXPECT_TRUE(with_h5dump == 0 || with_h5dump == 77) << with_h5dump;
  if (with_pandas == 77 || with_h5dump == 77)
    GTEST_SKIP() << "not installed: python3-h5py, python3-pandas or hdf5-tools";
}

TEST(Merge, MergedAndUnmergedGiveTheSameSummary) {
  const TemporaryDirectory directory;
  write_ranks(directory.path(), 3);
  Summarizer before, after;
  read_trace(directory.path(), before);
  merge_trace(directory.path());
  TraceProblems problems;
  EXPECT_EQ(find_trace(directory.path(), problems).merged, std::filesystem::path(directory / "trace.h5"));
  read_trace(directory.path(), after);
  EXPECT_EQ(summary_json(before.finish()), summary_json(after.finish()));
}

TEST(Merge, NamesDamagedAndMissingPartsAndGoesOn) {
  const TemporaryDirectory directory;
  write_ranks(directory.path(), 5);
  std::filesystem::remove(directory / "rank-00003-segment-000001.h5");
  std::filesystem::resize_file(directory / "rank-00002-segment-000001.h5", 1000);
  const MergeReport report = merge_trace(directory.path());
  EXPECT_EQ(report.events, 6);
  ASSERT_EQ(report.problems.damaged.size(), 1u);
  const std::string damaged = report.problems.damaged[0];
  EXPECT_NE(damaged.find("rank-00002-segment-000001.h5"), std::string::npos) << damaged;
  ASSERT_EQ(report.problems.notes.size(), 1u);
  EXPECT_NE(report.problems.notes[0].find("ranks 2, 3"), std::string::npos) << report.problems.notes[0];
  CollectingSink sink;
  EXPECT_EQ(read_trace(report.file, sink).notes, report.problems.all());  // trace.h5 remembers them
}

TEST(Merge, SaysWhichSegmentsAreGone) {
  const TemporaryDirectory directory;
  write_ranks(directory.path(), 1);
  std::filesystem::rename(directory / "rank-00000-segment-000001.h5", directory / "rank-00000-segment-000004.h5");
  CollectingSink sink;
  const auto problems = read_trace(directory.path(), sink).notes;
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("segments 1 to 3 of rank 0"), std::string::npos) << problems[0];
}

TEST(Merge, DamagedMergedFileIsPassedOverForTheSegments) {
  const TemporaryDirectory directory;
  write_ranks(directory.path(), 1);
  merge_trace(directory.path());
  std::filesystem::resize_file(directory / "trace.h5", 700);
  CollectingSink sink;
  const auto problems = read_trace(directory.path(), sink).notes;
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("trace.h5"), std::string::npos);
  EXPECT_EQ(sink.event_rows.size(), 3u);
}

TEST(Merge, RefusesWhatHoldsNoTrace) {
  const TemporaryDirectory directory;
  CollectingSink sink;
  const auto code = [&](const std::string& run) {
    try {
      read_trace(run, sink);
    } catch (const FileError& error) {
      return error.code();
    }
    return ExitCode::finished;
  };
  EXPECT_EQ(code(directory.path()), ExitCode::missing_input);
  EXPECT_EQ(code(directory / "absent"), ExitCode::missing_input);
  std::ofstream(directory / "rank-00000-segment-000001.h5") << "not HDF5";
  EXPECT_EQ(code(directory.path()), ExitCode::damaged_data);
  EXPECT_THROW(merge_trace(directory.path()), FileError);
  EXPECT_FALSE(std::filesystem::exists(directory / "trace.h5"));
}

TEST(Merge, SortsAcrossBlocksOfAnyLength) {
  CollectingSink sink;
  StartOrder order(sink);
  constexpr int kCount = 200'000;
  for (int i = 0; i < kCount; ++i) {
    EventRow row;
    row.start_ns = i % 10 == 9 ? i - 9 : i + 1;  // a bubble recorded after nine chunks inside it
    order.add(row);
  }
  order.flush();
  ASSERT_EQ(sink.event_rows.size(), static_cast<std::size_t>(kCount));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(sink.event_rows[i].start_ns, i);
}

TEST(Merge, FillWorkComesAfterWhatItLiesOver) {
  CollectingSink sink;
  StartOrder order(sink);
  constexpr int kSteps = 1000, kBubbles = 100;
  const auto add = [&](EventKind kind, std::int64_t start) {
    EventRow row;
    row.kind = static_cast<std::int16_t>(kind);
    row.start_ns = start;
    order.add(row);
  };
  for (int step = 0; step < kSteps; ++step) {  // a step's chunks come at its end, after all its bubbles
    for (int i = 0; i < kBubbles; ++i) add(EventKind::bubble_steady, 10 * (kBubbles * step + i));
    for (int i = 0; i < kBubbles; ++i) add(EventKind::fill, 10 * (kBubbles * step + i));
  }
  order.flush();
  ASSERT_EQ(sink.event_rows.size(), std::size_t{2} * kSteps * kBubbles);
  for (std::size_t i = 0; i < sink.event_rows.size(); ++i) {
    const auto kind = i % 2 == 0 ? EventKind::bubble_steady : EventKind::fill;
    ASSERT_EQ(sink.event_rows[i].start_ns, static_cast<std::int64_t>(10 * (i / 2)));
    ASSERT_EQ(sink.event_rows[i].kind, static_cast<int>(kind));
  }
}

TEST(TimeAxis, DriftIsTakenOutLinearly) {
  RankRow rank;
  rank.clock_start_at_ns = 1'000;
  rank.clock_start_offset_ns = 500;
  rank.clock_end_at_ns = 11'000;
  rank.clock_end_offset_ns = 600;
  rank.clock_end_uncertainty_ns = 1;
  EXPECT_EQ(on_rank_zero_clock(1'000, rank), 1'500);
  EXPECT_EQ(on_rank_zero_clock(6'000, rank), 6'550);
  EXPECT_EQ(on_rank_zero_clock(11'000, rank), 11'600);
  rank.clock_end_uncertainty_ns = -1;  // never measured again
  EXPECT_EQ(on_rank_zero_clock(11'000, rank), 11'500);
}

TEST(TimeAxis, AttemptsFollowTheWallClockAndNeverOverlap) {
  std::vector<RankRow> rows(3);
  for (int i = 0; i < 3; ++i) {
    rows[i].attempt = i + 1;
    rows[i].start_ns = 100;  // a host that was started anew begins its clock again
    rows[i].end_ns = 1'100;
  }
  rows[0].start_wall_s = 50;
  rows[1].start_wall_s = 50 + 5e-6;
  rows[2].start_wall_s = 40;  // a wall clock that was set back
  const TimeAxis axis(rows);
  EXPECT_EQ(axis.place(100, rows[0]), 0);
  EXPECT_NEAR(static_cast<double>(axis.place(100, rows[1])), 5'000, 10);
  EXPECT_EQ(axis.place(100, rows[2]), axis.place(1'100, rows[1]));
}

TEST(SegmentName, ParsesOnlyItsOwnNames) {
  EXPECT_EQ(parse_segment_file("rank-00012-segment-000345.h5"), (SegmentName{12, 345}));
  for (const char* other : {"rank-00012-segment-000345.h5.tmp", ".rank-00012-segment-000345.h5.tmp",
                            "rank-12-segment-345.h5", "trace.h5", "rank--0001-segment-000001.h5"})
    EXPECT_FALSE(parse_segment_file(other)) << other;
}

}  // namespace
}  // namespace pipefill
