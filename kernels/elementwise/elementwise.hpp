// The small elementwise ops on spans: fill, add, scale. Bits independent of the thread count.
#pragma once

#include <cstdint>

#include "kernels/context.hpp"

namespace pipefill {

void fill(const KernelContext& ctx, float* x /* (n) */, float value, std::int64_t n);
void add_into(const KernelContext& ctx, float* sum /* (n) += */, const float* x /* (n) */, std::int64_t n);
void scale(const KernelContext& ctx, float* x /* (n) */, float factor, std::int64_t n);

namespace reference {
void fill(float* x, float value, std::int64_t n);
void add_into(float* sum, const float* x, std::int64_t n);
void scale(float* x, float factor, std::int64_t n);
}  // namespace reference

}  // namespace pipefill
