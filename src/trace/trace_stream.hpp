// How a run's trace is handed on, whatever it lies in (segments or trace.h5): as a stream, in bounded memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trace/description.hpp"
#include "trace/rows.hpp"

namespace pipefill {

/// Takes a trace in this order: begin once; ranks of all attempts; names of fill jobs; steps; events. Times are
/// corrected by the clock offsets: nanoseconds since the run's first start, on rank 0's clock. Steps and events come
/// sorted by rank, then attempt, then start.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// `run` is that of the last attempt.
  virtual void begin(const RunDescription& run) = 0;
  virtual void ranks(std::span<const RankRow> rows) = 0;
  /// Who the jobs are; a job may come several times, the last one knows most. What they did, the events tell.
  virtual void fill_jobs(std::span<const FillJobRow> rows) = 0;
  virtual void steps(std::span<const StepRow> rows) = 0;
  virtual void events(std::span<const EventRow> rows) = 0;
};

/// What a reader of a trace could not give, for people.
struct TraceProblems {
  std::vector<std::string> damaged;  ///< files passed over
  std::vector<std::string> notes;    ///< parts that are not there, and what took the place of a damaged file
  std::vector<std::string> all() const {
    std::vector<std::string> lines = damaged;
    lines.insert(lines.end(), notes.begin(), notes.end());
    return lines;
  }
};

}  // namespace pipefill
