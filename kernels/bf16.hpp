// bfloat16 as a type: the upper half of an fp32, rounded to nearest, ties to even. No arithmetic is done in it.
#pragma once

#include <bit>
#include <cstdint>

namespace pipefill {

struct Bf16 {
  std::uint16_t bits;
  friend constexpr bool operator==(Bf16, Bf16) = default;
};

constexpr float to_float(Bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

/// Infinities stay, NaN stays NaN (quiet, sign and upper payload kept), overflow goes to infinity.
constexpr Bf16 to_bf16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (u >> 16) | 0x40U;
  return {static_cast<std::uint16_t>((u & 0x7fffffffU) > 0x7f800000U ? nan : rounded)};
}

}  // namespace pipefill
