// Where each thing of a schedule stands: places by (kind, chunk, microbatch), kept and found in constant time, for a
// schedule has millions of them at its limits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/dependencies.hpp"
#include "schedule/schedule.hpp"

namespace pipefill {

/// `Kind` is an enum class that counts from 0.
template <class Kind>
class PlaceTable {
 public:
  PlaceTable(const Schedule& schedule, int kinds)
      : chunks_(schedule.chunks()),
        microbatches_(schedule.microbatches < kMostMicrobatches ? schedule.microbatches : kMostMicrobatches),
        rows_(static_cast<std::size_t>(kinds) * schedule.stage_of_chunk.size()) {}

  /// Keeps the first place only; a later one is refused, and the first returned. A chunk or microbatch that the
  /// schedule does not have is not kept.
  std::optional<Place> add(Kind kind, int chunk, int microbatch, Place place) {
    if (!has(chunk, microbatch)) return std::nullopt;
    std::vector<Place>& row = rows_[row_of(kind, chunk)];
    const auto column = static_cast<std::size_t>(microbatch);
    if (row.size() <= column) row.resize(column + 1, kNone);  // grows by doubling
    if (row[column] != kNone) return row[column];
    row[column] = place;
    return std::nullopt;
  }
  /// Chunks are 64-bit so that the neighbours of any int can be asked for.
  std::optional<Place> find(Kind kind, std::int64_t chunk, int microbatch) const {
    if (!has(chunk, microbatch)) return std::nullopt;
    const std::vector<Place>& row = rows_[row_of(kind, chunk)];
    const auto column = static_cast<std::size_t>(microbatch);
    if (row.size() <= column || row[column] == kNone) return std::nullopt;
    return row[column];
  }
  /// For every microbatch that is there, in order.
  std::vector<Place> find_all(Kind kind, std::int64_t chunk) const {
    std::vector<Place> places;
    if (!has(chunk, 0)) return places;
    for (const Place place : rows_[row_of(kind, chunk)])
      if (place != kNone) places.push_back(place);
    return places;
  }

 private:
  static constexpr Place kNone{-1, -1};
  bool has(std::int64_t chunk, int microbatch) const {
    return chunk >= 0 && chunk < chunks_ && microbatch >= 0 && microbatch < microbatches_;
  }
  std::size_t row_of(Kind kind, std::int64_t chunk) const {
    return static_cast<std::size_t>(static_cast<std::int64_t>(kind) * chunks_ + chunk);
  }

  std::int64_t chunks_;
  int microbatches_;
  std::vector<std::vector<Place>> rows_;  ///< [kind, chunk][microbatch]
};

}  // namespace pipefill
