#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

namespace pipefill {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kSizes{Unit{"B", 1},         Unit{"KB", 1e3},         Unit{"MB", 1e6},
                            Unit{"GB", 1e9},      Unit{"TB", 1e12},        Unit{"KiB", 1024.0},
                            Unit{"MiB", 1048576}, Unit{"GiB", 1073741824}, Unit{"TiB", 1099511627776.0}};
constexpr std::array kTimes{Unit{"ns", 1},     Unit{"us", 1e3},   Unit{"ms", 1e6},   Unit{"s", 1e9},
                            Unit{"min", 60e9}, Unit{"h", 3600e9}, Unit{"d", 86400e9}};

/// A plain decimal number at the start of `text`; what follows it is left in `rest`.
std::optional<double> leading_number(std::string_view text, std::string_view& rest) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || !std::isfinite(value) || value < 0) return std::nullopt;
  rest = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  return value;
}

template <std::size_t N>
std::optional<double> scaled(double value, std::string_view unit, const std::array<Unit, N>& units) {
  const auto found = std::ranges::find(units, unit, &Unit::name);
  if (found == units.end() || value * found->factor > 9e18) return std::nullopt;
  return value * found->factor;
}

std::optional<Nanoseconds> parse_clock(std::string_view text) {  // h:mm:ss or m:ss
  std::int64_t total = 0;
  int fields = 0;
  while (true) {
    int field = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), field);
    if (status != std::errc{} || field < 0 || (fields > 0 && field > 59) || ++fields > 3) return std::nullopt;
    total = total * 60 + field;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) break;
    if (text.front() != ':') return std::nullopt;
    text.remove_prefix(1);
  }
  if (fields < 2) return std::nullopt;
  return Nanoseconds{total * 1'000'000'000};
}

}  // namespace

std::optional<Bytes> parse_bytes(std::string_view text) {
  std::string_view unit;
  const auto value = leading_number(text, unit);
  if (!value) return std::nullopt;
  const auto size = scaled(*value, unit.empty() ? "B" : unit, kSizes);
  if (!size) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(std::llround(*size))};
}

std::optional<Nanoseconds> parse_duration(std::string_view text) {
  if (text.find(':') != std::string_view::npos) return parse_clock(text);
  std::string_view unit;
  const auto value = leading_number(text, unit);
  if (!value) return std::nullopt;
  const auto time = scaled(*value, unit, kTimes);
  if (!time) return std::nullopt;
  return Nanoseconds{std::llround(*time)};
}

std::string format_bytes(Bytes size) {
  constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(size.count);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kNames.size()) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", size.count) : fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string format_duration(Nanoseconds time) {
  const std::int64_t ns = time.count();
  const std::int64_t s = std::abs(ns) / 1'000'000'000;
  const char* sign = ns < 0 ? "-" : "";
  if (s >= 3600) return fmt::format("{}{}:{:02}:{:02}", sign, s / 3600, s / 60 % 60, s % 60);
  if (s >= 60) return fmt::format("{}{}:{:02}", sign, s / 60, s % 60);
  if (s >= 1) return fmt::format("{:.2f} s", 1e-9 * static_cast<double>(ns));
  if (std::abs(ns) >= 1'000'000) return fmt::format("{:.1f} ms", 1e-6 * static_cast<double>(ns));
  if (std::abs(ns) >= 1'000) return fmt::format("{:.1f} us", 1e-3 * static_cast<double>(ns));
  return fmt::format("{} ns", ns);
}

std::string format_clock(Nanoseconds time) {
  const std::int64_t s = (time.count() + 500'000'000) / 1'000'000'000;
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string counted(std::int64_t count, std::string_view noun, std::string_view plural_ending) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : plural_ending);
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  const int limit = static_cast<int>(word.size()) / 3 + 1;
  std::optional<std::string> best;
  int best_distance = limit + 1;
  for (const std::string& candidate : candidates)
    if (const int distance = edit_distance(word, candidate); distance < best_distance)
      best = candidate, best_distance = distance;
  return best;
}

}  // namespace pipefill
