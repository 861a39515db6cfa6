// fp32 <-> bf16, rounded to nearest, ties to even.
#pragma once

#include <cstdint>

#include "kernels/bf16.hpp"
#include "kernels/context.hpp"

namespace pipefill {

void cast(const KernelContext& ctx, Bf16* out /* (n) */, const float* in /* (n) */, std::int64_t n);
void cast(const KernelContext& ctx, float* out /* (n) */, const Bf16* in /* (n) */, std::int64_t n);

namespace reference {
void cast(Bf16* out, const float* in, std::int64_t n);
void cast(float* out, const Bf16* in, std::int64_t n);
}  // namespace reference

}  // namespace pipefill
