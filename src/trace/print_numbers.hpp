// How the summary writes its figures: n/a where there is none.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace pipefill {

inline std::string number_text(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "n/a";
}
inline std::string percent_text(double value) {
  return std::isfinite(value) ? fmt::format("{:.2f} %", 100 * value) : "n/a";
}
inline std::string time_text(double seconds) {
  if (!std::isfinite(seconds)) return "n/a";
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3f} ms", 1e3 * seconds) : fmt::format("{:.1f} us", 1e6 * seconds);
}

}  // namespace pipefill
