// Finding a run's trace, reading it from whichever files hold it, and writing trace.h5.
#include "trace/merge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <sstream>

#include "base/error.hpp"
#include "trace/segment_name.hpp"
#include "trace/segments.hpp"
#include "trace/summary.hpp"
#include "trace/trace_file.hpp"

namespace pipefill {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMergedFile = "trace.h5";
constexpr std::uint64_t kBlock = std::uint64_t{1} << 14;

fs::path trace_directory(const fs::path& run) {
  std::error_code none;
  return fs::is_directory(run / "trace", none) ? run / "trace" : run;
}

std::vector<fs::path> segment_paths(const fs::path& directory) {
  std::vector<fs::path> paths;
  for (const SegmentName& name : list_segments(directory)) paths.push_back(directory / segment_file(name));
  return paths;
}

/// Streams a merged file, whose times are on the axis already.
TraceProblems read_merged(const fs::path& file, TraceSink& sink) {
  const TraceFileReader reader(file);
  if (reader.content() != TraceContent::run) return read_segments({file}, sink);
  sink.begin(reader.run());
  const auto stream = [&]<class Row>(auto&& take) {
    const std::uint64_t count = reader.count<Row>();
    for (std::uint64_t first = 0; first < count; first += kBlock)
      take(std::span<const Row>(reader.read<Row>(first, kBlock)));
  };
  const std::uint64_t ranks = reader.count<RankRow>();
  sink.ranks(reader.read<RankRow>(0, ranks));
  stream.template operator()<FillJobRow>([&](std::span<const FillJobRow> rows) { sink.fill_jobs(rows); });
  stream.template operator()<StepRow>([&](std::span<const StepRow> rows) { sink.steps(rows); });
  stream.template operator()<EventRow>([&](std::span<const EventRow> rows) { sink.events(rows); });

  TraceProblems problems;  // of the merge, which has exited with them
  std::istringstream lines(reader.text_attribute("problems"));
  for (std::string line; std::getline(lines, line);) problems.notes.push_back(line);
  return problems;
}

/// Writes trace.h5 and sums up for its /bubbles and /fill_jobs on the way.
class MergeSink final : public TraceSink {
 public:
  explicit MergeSink(fs::path file) : path_(std::move(file)) {}

  void begin(const RunDescription& run) override {
    summarizer_.begin(run);
    file_ = std::make_unique<TraceFileWriter>(
        path_, run, TraceFileOptions{.content = TraceContent::run, .sync = SyncOnClose::fsync});
  }
  void ranks(std::span<const RankRow> rows) override {
    summarizer_.ranks(rows);
    file_->append(rows);
    double first = std::numeric_limits<double>::infinity();
    for (const RankRow& row : rows) first = std::min(first, row.start_wall_s);
    file_->attribute("t0_wall", first);
  }
  void fill_jobs(std::span<const FillJobRow> rows) override { summarizer_.fill_jobs(rows); }
  void steps(std::span<const StepRow> rows) override {
    summarizer_.steps(rows);
    file_->append(rows);
  }
  void events(std::span<const EventRow> rows) override {
    summarizer_.events(rows);
    file_->append(rows);
    events_ += static_cast<std::int64_t>(rows.size());
  }
  void finish(std::int64_t segments, const std::vector<std::string>& problems) {
    file_->append(std::span<const BubbleRow>(summarizer_.bubbles()));
    file_->append(std::span<const FillJobRow>(summarizer_.fill_jobs()));
    file_->attribute("segments", segments);
    file_->attribute("problems", fmt::format("{}", fmt::join(problems, "\n")).substr(0, 60'000));
    file_->finish();
  }
  std::int64_t event_count() const { return events_; }

 private:
  fs::path path_;
  std::unique_ptr<TraceFileWriter> file_;
  Summarizer summarizer_;
  std::int64_t events_ = 0;
};

}  // namespace

TraceLocation find_trace(const fs::path& run, TraceProblems& problems) {
  std::error_code none;
  if (fs::is_regular_file(run, none)) return {.directory = run.parent_path(), .segments = {}, .merged = run};
  TraceLocation location{.directory = trace_directory(run), .segments = {}, .merged = {}};
  location.segments = segment_paths(location.directory);
  const fs::path merged = location.directory / kMergedFile;
  const bool there = fs::exists(merged, none);
  if (!there && location.segments.empty()) {
    throw FileError(ExitCode::missing_input, run,
                    fs::exists(run, none) ? "holds no trace: was the run started with trace.enabled: false, or is this "
                                            "not a run directory?"
                                          : "there is no such run");
  }
  if (there && location.segments.empty()) location.merged = merged;
  if (!there || location.segments.empty()) return location;
  try {
    const TraceFileReader reader(merged);
    if (reader.integer_attribute("segments") == static_cast<std::int64_t>(location.segments.size()))
      location.merged = merged;
  } catch (const FileError& error) {
    problems.notes.push_back(fmt::format("passed over {}; the segments beside it are read instead", error.what()));
  }
  return location;
}

TraceProblems read_trace(const fs::path& run, TraceSink& sink) {
  TraceProblems before;
  const TraceLocation location = find_trace(run, before);
  TraceProblems problems =
      location.merged.empty() ? read_segments(location.segments, sink) : read_merged(location.merged, sink);
  problems.notes.insert(problems.notes.begin(), before.notes.begin(), before.notes.end());
  return problems;
}

MergeReport merge_trace(const fs::path& run) {
  MergeReport report;
  if (!fs::exists(run)) throw FileError(ExitCode::missing_input, run, "there is no such run");
  const fs::path directory = trace_directory(run);
  const std::vector<fs::path> segments = segment_paths(directory);
  if (segments.empty()) {
    throw FileError(ExitCode::missing_input, directory,
                    "holds no segments (rank-00000-segment-000001.h5 ...) to merge");
  }
  report.file = directory / kMergedFile;
  report.segments = static_cast<std::int64_t>(segments.size());
  MergeSink sink(report.file);
  report.problems = read_segments(segments, sink);
  sink.finish(report.segments, report.problems.all());
  report.events = sink.event_count();
  return report;
}

}  // namespace pipefill
