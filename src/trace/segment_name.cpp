// Building, parsing and listing the names of segment files.
#include "trace/segment_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

namespace pipefill {

std::string segment_file(SegmentName name) {
  return fmt::format("rank-{:05d}-segment-{:06d}.h5", name.rank, name.number);
}

std::optional<SegmentName> parse_segment_file(const std::string& file) {
  SegmentName name;
  if (std::sscanf(file.c_str(), "rank-%9d-segment-%9d.h5", &name.rank, &name.number) != 2) return std::nullopt;
  if (name.rank < 0 || name.number < 1 || segment_file(name) != file)
    return std::nullopt;  // also refuses what follows or other digits
  return name;
}

std::vector<SegmentName> list_segments(const std::filesystem::path& directory) {
  std::vector<SegmentName> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto name = parse_segment_file(entry->path().filename().string())) found.push_back(*name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace pipefill
