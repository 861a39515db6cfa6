// Time and size as types. Nanoseconds are std::chrono's; Bytes are signed so that differences are honest.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace pipefill {

using Nanoseconds = std::chrono::duration<std::int64_t, std::nano>;

constexpr double to_seconds(Nanoseconds t) { return 1e-9 * static_cast<double>(t.count()); }
constexpr double to_milliseconds(Nanoseconds t) { return 1e-6 * static_cast<double>(t.count()); }
constexpr Nanoseconds from_seconds(double seconds) { return Nanoseconds{static_cast<std::int64_t>(seconds * 1e9)}; }

struct Bytes {
  std::int64_t count = 0;

  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;
  constexpr Bytes& operator+=(Bytes other) { return count += other.count, *this; }
  constexpr Bytes& operator-=(Bytes other) { return count -= other.count, *this; }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return {a.count * n}; }
};

}  // namespace pipefill
