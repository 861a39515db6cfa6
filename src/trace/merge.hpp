// A run's trace as a whole: found, read as a stream with its times put on one axis, and merged into trace.h5.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trace/trace_stream.hpp"

namespace pipefill {

/// Where a run's trace lies. `merged` is trace.h5 when that is there and holds all of the segments.
struct TraceLocation {
  std::filesystem::path directory;  ///< <run>/trace
  std::vector<std::filesystem::path> segments;
  std::filesystem::path merged;  ///< empty: segments only
};

/// `run` is a run directory, its trace directory or a trace file. FileError 66 when there is no trace.
/// trace.h5 is passed over, and `problems.notes` says so, when it is damaged while there are segments.
TraceLocation find_trace(const std::filesystem::path& run, TraceProblems& problems);

/// Streams the run's trace into `sink`, in memory that does not grow with its length (steps of one rank at a time;
/// events in blocks). Returns what it could not read: damaged segments, which are passed over, missing ones, and
/// ranks that left nothing. FileError 66 without any trace, 65 when nothing of it is readable.
TraceProblems read_trace(const std::filesystem::path& run, TraceSink& sink);

struct MergeReport {
  std::filesystem::path file;
  std::int64_t segments = 0;
  std::int64_t events = 0;
  TraceProblems problems;
};

/// Joins all segments of all attempts in `run` (a run directory or its trace directory) into <run>/trace/trace.h5,
/// replacing an older one; the segments stay. FileError 66 without segments, 65 when none is readable, 74 when the
/// disk fails. Call on the HDF5 thread, when the ranks have closed or are gone.
MergeReport merge_trace(const std::filesystem::path& run);

}  // namespace pipefill
