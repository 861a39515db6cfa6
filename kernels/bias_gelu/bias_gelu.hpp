// y = gelu(x + b), tanh form (Hendrycks & Gimpel 2016, eq. in section 2), fused so that x + b is never stored.
#pragma once

#include <cstdint>

#include "kernels/bf16.hpp"
#include "kernels/context.hpp"

namespace pipefill {

/// y may be x.
void bias_gelu_forward(const KernelContext& ctx, float* y /* (N,C) */, const float* x /* (N,C) */,
                       const float* bias /* (C) */, std::int64_t N, std::int64_t C);
/// The same, rounded to bf16 for the product that follows.
void bias_gelu_forward(const KernelContext& ctx, Bf16* y /* (N,C) */, const float* x /* (N,C) */,
                       const float* bias /* (C) */, std::int64_t N, std::int64_t C);

/// dx = dy * gelu'(x + b); dx may be dy or x. The gradient of the bias is the column sum of dx
/// (linear_backward_weight).
void bias_gelu_backward(const KernelContext& ctx, float* dx /* (N,C) */, const float* dy /* (N,C) */,
                        const float* x /* (N,C) */, const float* bias /* (C) */, std::int64_t N, std::int64_t C);

namespace reference {
void bias_gelu_forward(float* y, const float* x, const float* bias, std::int64_t N, std::int64_t C);
void bias_gelu_backward(float* dx, const float* dy, const float* x, const float* bias, std::int64_t N, std::int64_t C);
}  // namespace reference

}  // namespace pipefill
