// Sum of squares of a span, in double, in fixed blocks added in ascending order: the same bits at any thread count.
#pragma once

#include <cstdint>

#include "kernels/context.hpp"

namespace pipefill {

double squared_norm(const KernelContext& ctx, const float* x /* (n) */, std::int64_t n);

namespace reference {
double squared_norm(const float* x, std::int64_t n);
}  // namespace reference

}  // namespace pipefill
