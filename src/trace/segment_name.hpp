// Names of segment files: rank-00000-segment-000001.h5.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipefill {

struct SegmentName {
  int rank = 0;
  int number = 1;  ///< per rank, from 1, without gaps
  auto operator<=>(const SegmentName&) const = default;
};

std::string segment_file(SegmentName name);
std::optional<SegmentName> parse_segment_file(const std::string& file);
/// Those in a directory, by rank, then number; empty when there is no such directory.
std::vector<SegmentName> list_segments(const std::filesystem::path& directory);

}  // namespace pipefill
