// Layer normalisation over the last dimension (Ba, Kiros, Hinton 2016), epsilon 1e-5, alone or behind a residual add.
#pragma once

#include <cstdint>

#include "kernels/bf16.hpp"
#include "kernels/context.hpp"

namespace pipefill {

inline constexpr float kLayernormEpsilon = 1e-5F;

/// y = (x - mean) * rstd * gamma + beta; mean and rstd of every row are kept for backward.
void layernorm_forward(const KernelContext& ctx, float* y /* (N,C) */, float* mean /* (N) */, float* rstd /* (N) */,
                       const float* x /* (N,C) */, const float* gamma /* (C) */, const float* beta /* (C) */,
                       std::int64_t N, std::int64_t C);
/// The same, y rounded to bf16 for the product that follows.
void layernorm_forward(const KernelContext& ctx, Bf16* y /* (N,C) */, float* mean /* (N) */, float* rstd /* (N) */,
                       const float* x /* (N,C) */, const float* gamma /* (C) */, const float* beta /* (C) */,
                       std::int64_t N, std::int64_t C);

/// sum = residual + branch + bias (bias may be null), y = layernorm(sum): the same bits as residual_add followed by
/// layernorm_forward. sum may be residual or branch.
void residual_layernorm_forward(const KernelContext& ctx, float* sum /* (N,C) */, float* y /* (N,C) */,
                                float* mean /* (N) */, float* rstd /* (N) */, const float* residual /* (N,C) */,
                                const float* branch /* (N,C) */, const float* bias /* (C) or null */,
                                const float* gamma /* (C) */, const float* beta /* (C) */, std::int64_t N,
                                std::int64_t C);
void residual_layernorm_forward(const KernelContext& ctx, float* sum /* (N,C) */, Bf16* y /* (N,C) */,
                                float* mean /* (N) */, float* rstd /* (N) */, const float* residual /* (N,C) */,
                                const float* branch /* (N,C) */, const float* bias /* (C) or null */,
                                const float* gamma /* (C) */, const float* beta /* (C) */, std::int64_t N,
                                std::int64_t C);

/// dx = gradient of x, or dx += it (the residual's gradient is already there). dx may be dy without accumulation.
void layernorm_backward_input(const KernelContext& ctx, float* dx /* (N,C) */, const float* dy /* (N,C) */,
                              const float* x /* (N,C) */, const float* mean /* (N) */, const float* rstd /* (N) */,
                              const float* gamma /* (C) */, std::int64_t N, std::int64_t C,
                              Accumulate accumulate = Accumulate::no);

/// dgamma += sum over rows of dy * (x - mean) * rstd, dbeta += sum over rows of dy, rows ascending.
void layernorm_backward_weight(const KernelContext& ctx, float* dgamma /* (C) */, float* dbeta /* (C) */,
                               const float* dy /* (N,C) */, const float* x /* (N,C) */, const float* mean /* (N) */,
                               const float* rstd /* (N) */, std::int64_t N, std::int64_t C);

namespace reference {
void layernorm_forward(float* y, float* mean, float* rstd, const float* x, const float* gamma, const float* beta,
                       std::int64_t N, std::int64_t C);
void residual_layernorm_forward(float* sum, float* y, float* mean, float* rstd, const float* residual,
                                const float* branch, const float* bias, const float* gamma, const float* beta,
                                std::int64_t N, std::int64_t C);
void layernorm_backward_input(float* dx, const float* dy, const float* x, const float* mean, const float* rstd,
                              const float* gamma, std::int64_t N, std::int64_t C,
                              Accumulate accumulate = Accumulate::no);
void layernorm_backward_weight(float* dgamma, float* dbeta, const float* dy, const float* x, const float* mean,
                               const float* rstd, std::int64_t N, std::int64_t C);
}  // namespace reference

}  // namespace pipefill
