// A linear layer y = x W^T + b over N rows (N = B*T), weights stored (OC,C) as in GPT-2 checkpoints of llm.c.
// Backward is two calls: the input part (I) and the weight part (W), which may run much later.
#pragma once

#include "kernels/matmul/matmul.hpp"

namespace pipefill {

/// `bias` may be null (then another op adds it: bias_gelu, the residual add).
void linear_forward(const KernelContext& ctx, float* y /* (N,OC) */, const float* x /* (N,C) */,
                    const float* weight /* (OC,C) */, const float* bias /* (OC) or null */, std::int64_t N,
                    std::int64_t C, std::int64_t OC);
void linear_forward(const KernelContext& ctx, float* y /* (N,OC) */, const Bf16* x /* (N,C) */,
                    const Bf16* weight /* (OC,C) */, const float* bias /* (OC) or null */, std::int64_t N,
                    std::int64_t C, std::int64_t OC);

/// dx = dy W, or dx += dy W.
void linear_backward_input(const KernelContext& ctx, float* dx /* (N,C) */, const float* dy /* (N,OC) */,
                           const float* weight /* (OC,C) */, std::int64_t N, std::int64_t C, std::int64_t OC,
                           Accumulate accumulate = Accumulate::no);
void linear_backward_input(const KernelContext& ctx, float* dx /* (N,C) */, const Bf16* dy /* (N,OC) */,
                           const Bf16* weight /* (OC,C) */, std::int64_t N, std::int64_t C, std::int64_t OC,
                           Accumulate accumulate = Accumulate::no);

/// dweight += dy^T x; dbias += column sums of dy, rows ascending. Always accumulates (over microbatches).
void linear_backward_weight(const KernelContext& ctx, float* dweight /* (OC,C) */, float* dbias /* (OC) or null */,
                            const float* x /* (N,C) */, const float* dy /* (N,OC) */, std::int64_t N, std::int64_t C,
                            std::int64_t OC);
void linear_backward_weight(const KernelContext& ctx, float* dweight /* (OC,C) */, float* dbias /* (OC) or null */,
                            const Bf16* x /* (N,C) */, const Bf16* dy /* (N,OC) */, std::int64_t N, std::int64_t C,
                            std::int64_t OC);

namespace reference {
void linear_forward(float* y, const float* x, const float* weight, const float* bias, std::int64_t N, std::int64_t C,
                    std::int64_t OC);
void linear_backward_input(float* dx, const float* dy, const float* weight, std::int64_t N, std::int64_t C,
                           std::int64_t OC, Accumulate accumulate = Accumulate::no);
void linear_backward_weight(float* dweight, float* dbias, const float* x, const float* dy, std::int64_t N,
                            std::int64_t C, std::int64_t OC);
}  // namespace reference

}  // namespace pipefill
