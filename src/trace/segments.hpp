// All segments of a run as one stream.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trace/trace_stream.hpp"

namespace pipefill {

/// Streams the files into `sink` and returns what it could not read. FileError 65 when it could read none.
TraceProblems read_segments(const std::vector<std::filesystem::path>& files, TraceSink& sink);

/// Hands rows on sorted by start, fill work after what it lies over, although they come sorted by end and fill work at
/// the end of its step. Holds kWindow rows; a row that comes more than kWindow rows late is handed on late.
class StartOrder {
 public:
  static constexpr std::size_t kWindow = std::size_t{1} << 15;
  explicit StartOrder(TraceSink& sink) : sink_(sink) {}
  void add(const EventRow& row);
  void flush();

 private:
  void hand_on(std::size_t count);
  TraceSink& sink_;
  std::vector<EventRow> rows_;
};

}  // namespace pipefill
