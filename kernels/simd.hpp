// Eight floats at a time, in the compiler's portable vectors: sums have a fixed order whatever the CPU, and no
// -ffast-math is needed to get them vectorised.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace pipefill::simd {

inline constexpr std::int64_t kLanes = 8;
typedef float F8 __attribute__((vector_size(32)));
typedef std::uint32_t U8 __attribute__((vector_size(32)));
typedef std::uint16_t H8 __attribute__((vector_size(16)));

[[gnu::always_inline]] inline F8 all(float x) { return F8{x, x, x, x, x, x, x, x}; }

[[gnu::always_inline]] inline F8 load(const float* p) {
  F8 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
[[gnu::always_inline]] inline void store(float* p, F8 v) { std::memcpy(p, &v, sizeof v); }

/// The first `count` < 8 lanes; the others are `rest`.
inline F8 load_some(const float* p, std::int64_t count, float rest) {
  F8 v = all(rest);
  std::memcpy(&v, p, static_cast<std::size_t>(count) * sizeof(float));
  return v;
}
inline void store_some(float* p, F8 v, std::int64_t count) {
  std::memcpy(p, &v, static_cast<std::size_t>(count) * sizeof(float));
}

[[gnu::always_inline]] inline F8 max(F8 a, F8 b) { return a > b ? a : b; }

inline float sum_of(F8 v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }
inline float max_of(F8 v) {
  return std::max(std::max(std::max(v[0], v[4]), std::max(v[2], v[6])),
                  std::max(std::max(v[1], v[5]), std::max(v[3], v[7])));
}

/// e^x to about 1.5 ulp (Cephes expf: x = n ln2 + r, polynomial in r). Below -86.9, where the result leaves the normal
/// numbers, 0; above 88.72 infinity; NaN stays NaN.
[[gnu::always_inline]] inline F8 exp(F8 x) {
  const F8 low = all(-86.9F);  // beyond these two the rest is nonsense, and replaced at the end
  const F8 high = all(89.0F);
  const F8 magic = all(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
  const F8 shifted = x * all(1.44269504088896341F) + magic;
  const F8 n = shifted - magic;
  const F8 r = (x - n * all(0.693359375F)) - n * all(-2.12194440e-4F);
  F8 p = all(1.9875691500e-4F);
  p = p * r + all(1.3981999507e-3F);
  p = p * r + all(8.3334519073e-3F);
  p = p * r + all(4.1665795894e-2F);
  p = p * r + all(1.6666665459e-1F);
  p = p * r + all(5.0000001201e-1F);
  p = (p * r) * r + (r + all(1.0F));
  // 2^(n-1), so that n = 128 is still a number; the factor 2 is applied last and overflows where it must.
  const U8 bits = (std::bit_cast<U8>(shifted) << 23) + (126U << 23);
  const F8 y = (p * std::bit_cast<F8>(bits)) * all(2.0F);
  const F8 y_or_zero = x < low ? all(0.0F) : y;
  return x > high ? all(__builtin_inff()) : y_or_zero;
}

/// Rounded to the nearest bf16, ties to even; NaN stays NaN.
[[gnu::always_inline]] inline H8 to_bf16_bits(F8 x) {
  const U8 u = std::bit_cast<U8>(x);
  const U8 rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
  const U8 nan = (u >> 16) | 0x40U;
  return __builtin_convertvector((x != x) ? nan : rounded, H8);
}

}  // namespace pipefill::simd
