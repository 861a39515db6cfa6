// Small text tools that several floors share: sizes, times and near misses, as people write and read them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/units.hpp"

namespace pipefill {

/// "512MiB", "1.5GB", "4096" -> bytes; units B, KB, MB, GB, TB (powers of 1000) and KiB..TiB (powers of 1024).
std::optional<Bytes> parse_bytes(std::string_view text);
/// "30s", "250ms", "2h", "3:50:00", "15min" -> time; a bare number has no unit and is refused.
std::optional<Nanoseconds> parse_duration(std::string_view text);

std::string format_bytes(Bytes size);           ///< "1.5 GiB"
std::string format_duration(Nanoseconds time);  ///< "1:02:11", "4.12 s", "412.0 ms", "13.0 us", "7 ns"
std::string format_clock(Nanoseconds time);     ///< "0:00:55", "1:02:11": hours, minutes, seconds, rounded

/// "1 stage", "2 stages", "2 microbatches".
std::string counted(std::int64_t count, std::string_view noun, std::string_view plural_ending = "s");

/// Damerau-Levenshtein distance (adjacent transpositions count 1).
int edit_distance(std::string_view a, std::string_view b);
/// The candidate nearest to `word`, or none when all are further than about a third of its length.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace pipefill
