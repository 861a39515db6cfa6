// Passes over the segments: what each is, then the names of jobs, the steps and the events, each rank by rank.
#include "trace/segments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "trace/event.hpp"
#include "trace/segment_name.hpp"
#include "trace/time_axis.hpp"
#include "trace/trace_file.hpp"

namespace pipefill {
namespace {

constexpr std::uint64_t kBlock = std::uint64_t{1} << 14;  // rows read at a time

struct Opened {
  std::filesystem::path path;
  SegmentName name;
  RankRow rank;
};

struct Catalogue {
  std::vector<Opened> segments;                                    ///< the readable ones, by rank, then number
  std::map<std::pair<std::int32_t, std::int32_t>, RankRow> ranks;  ///< by attempt, rank: each rank's newest row
  std::map<int, RunDescription> runs;                              ///< by attempt
  TraceProblems problems;
};

void catalogue_one(const std::filesystem::path& path, Catalogue& catalogue) {
  const TraceFileReader reader(path);
  const std::vector<RankRow> rows = reader.read<RankRow>(0, 2);
  if (reader.content() != TraceContent::segment || rows.size() != 1) {
    throw FileError(ExitCode::damaged_data, path, "is not one rank's segment");
  }
  const auto name = parse_segment_file(path.filename().string());
  catalogue.segments.push_back({path, name.value_or(SegmentName{rows[0].rank, 1}), rows[0]});
  catalogue.ranks[{rows[0].attempt, rows[0].rank}] = rows[0];
  catalogue.runs[rows[0].attempt] = reader.run();
}

/// Ranks without any segment, and numbers missing in a rank's row of segments.
void find_gaps(Catalogue& catalogue) {
  std::map<int, std::vector<int>> missing;
  for (const auto& [attempt, run] : catalogue.runs) {
    for (int rank = 0; rank < run.ranks && rank < 1'000'000; ++rank)
      if (!catalogue.ranks.contains({attempt, rank})) missing[attempt].push_back(rank);
  }
  for (const auto& [attempt, ranks] : missing) {
    catalogue.problems.notes.push_back(
        fmt::format("no readable segment of rank{} {} in attempt {}: killed before the first was written, or its files "
                    "are elsewhere",
                    ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "), attempt));
  }
}

Catalogue catalogue_segments(const std::vector<std::filesystem::path>& files) {
  Catalogue catalogue;
  std::string last_trouble;
  std::map<int, int> next_number;
  for (const std::filesystem::path& file : files) {
    if (const auto name = parse_segment_file(file.filename().string())) {
      int& expected = next_number.try_emplace(name->rank, 1).first->second;
      if (name->number > expected) {
        catalogue.problems.notes.push_back(
            fmt::format("segments {} to {} of rank {} are missing", expected, name->number - 1, name->rank));
      }
      expected = name->number + 1;
    }
    try {
      catalogue_one(file, catalogue);
    } catch (const FileError& error) {
      last_trouble = error.what();
      catalogue.problems.damaged.push_back(fmt::format("passed over {}", error.what()));
    }
  }
  if (catalogue.segments.empty()) {
    throw FileError(ExitCode::damaged_data, files.empty() ? "" : files.front().parent_path().string(),
                    fmt::format("holds no readable segment of a trace; the last one: {}", last_trouble));
  }
  find_gaps(catalogue);
  return catalogue;
}

/// Calls `take(row, its rank's row)` for every Row of every segment, rank by rank.
template <class Row, class Take, class RankDone>
void for_each_row(const Catalogue& catalogue, Take&& take, RankDone&& rank_done) {
  int rank = catalogue.segments.front().name.rank;
  for (const Opened& segment : catalogue.segments) {
    if (segment.name.rank != rank) rank_done();
    rank = segment.name.rank;
    const RankRow& row = catalogue.ranks.at({segment.rank.attempt, segment.rank.rank});
    const TraceFileReader reader(segment.path);
    const std::uint64_t count = reader.count<Row>();
    for (std::uint64_t first = 0; first < count; first += kBlock)
      for (const Row& value : reader.read<Row>(first, kBlock)) take(value, row);
  }
  rank_done();
}

}  // namespace

void StartOrder::add(const EventRow& row) {
  rows_.push_back(row);
  if (rows_.size() >= 2 * kWindow) hand_on(kWindow);
}

void StartOrder::flush() { hand_on(rows_.size()); }

void StartOrder::hand_on(std::size_t count) {
  const auto place = [](const EventRow& row) {
    return std::pair(row.start_ns, is_fill_work(static_cast<EventKind>(row.kind)));
  };
  std::stable_sort(rows_.begin(), rows_.end(),
                   [&](const EventRow& a, const EventRow& b) { return place(a) < place(b); });
  sink_.events(std::span(rows_).first(count));
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(count));
}

TraceProblems read_segments(const std::vector<std::filesystem::path>& files, TraceSink& sink) {
  Catalogue catalogue = catalogue_segments(files);
  std::vector<RankRow> rows;
  for (const auto& [key, row] : catalogue.ranks) rows.push_back(row);
  const TimeAxis axis(rows);
  for (RankRow& row : rows) row = axis.place(row);
  sink.begin(catalogue.runs.rbegin()->second);
  sink.ranks(rows);
  for_each_row<FillJobRow>(
      catalogue,
      [&](const FillJobRow& job, const RankRow&) {
        sink.fill_jobs({&job, 1});
      },
      [] {});

  std::vector<StepRow> steps;
  for_each_row<StepRow>(
      catalogue,
      [&](StepRow step, const RankRow& rank) {
        step.start_ns = axis.place(step.start_ns, rank);
        step.end_ns = axis.place(step.end_ns, rank);
        steps.push_back(step);
        if (steps.size() < kBlock) return;
        sink.steps(steps);
        steps.clear();
      },
      [&] {
        sink.steps(steps);
        steps.clear();
      });

  StartOrder order(sink);
  for_each_row<EventRow>(
      catalogue,
      [&](EventRow event, const RankRow& rank) {
        event.start_ns = axis.place(event.start_ns, rank);
        event.end_ns = axis.place(event.end_ns, rank);
        order.add(event);
      },
      [&] { order.flush(); });
  return catalogue.problems;
}

}  // namespace pipefill
