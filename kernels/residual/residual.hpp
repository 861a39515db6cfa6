// The residual connection: out = residual + branch + bias. Its backward is the identity for both inputs.
#pragma once

#include <cstdint>

#include "kernels/context.hpp"

namespace pipefill {

/// out may be residual or branch. Evaluated as residual + (branch + bias).
void residual_add(const KernelContext& ctx, float* out /* (N,C) */, const float* residual /* (N,C) */,
                  const float* branch /* (N,C) */, const float* bias /* (C) or null */, std::int64_t N, std::int64_t C);

namespace reference {
void residual_add(float* out, const float* residual, const float* branch, const float* bias, std::int64_t N,
                  std::int64_t C);
}  // namespace reference

}  // namespace pipefill
