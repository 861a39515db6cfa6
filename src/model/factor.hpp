// An fp32 value as a factor of matrix products: itself in fp32, rounded in bf16.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cast/cast.hpp"

namespace pipefill {

/// Where to compute an fp32 value whose factor goes to `factor`: there itself in fp32, in `scratch` in bf16.
inline float* working_memory(float* factor, float* /*scratch*/) { return factor; }
inline float* working_memory(Bf16* /*factor*/, float* scratch) { return scratch; }

inline void store_factor(const KernelContext& /*ctx*/, float* factor, const float* value, std::int64_t n) {
  if (factor != value) std::copy(value, value + n, factor);
}
inline void store_factor(const KernelContext& ctx, Bf16* factor, const float* value, std::int64_t n) {
  cast(ctx, factor, value, n);
}

}  // namespace pipefill
