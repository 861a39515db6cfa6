// Causal multi-head attention from packed qkv: softmax(q k^T / sqrt(D)) v, D = C/H, without a T x T matrix in memory:
// tiles of query rows, keys behind the diagonal skipped; backward recomputes the probabilities from the saved
// log-sum-exp (Dao et al. 2022, FlashAttention, algorithm 4).
#pragma once

#include <cstdint>

#include "kernels/bf16.hpp"
#include "kernels/context.hpp"

namespace pipefill {

/// qkv holds for every (b,t) the C floats of q, then of k, then of v, each H heads of D.
/// lse[b,h,t] = log of the sum over keys of exp(q k / sqrt(D)).
void attention_forward(const KernelContext& ctx, float* out /* (B,T,C) */, float* lse /* (B,H,T) */,
                       const float* qkv /* (B,T,3C) */, std::int64_t B, std::int64_t T, std::int64_t C, std::int64_t H);

/// Writes all of dqkv. Same bits for the same shape at any thread count: a (batch, head) is one thread's work.
void attention_backward(const KernelContext& ctx, float* dqkv /* (B,T,3C) */, const float* dout /* (B,T,C) */,
                        const float* qkv /* (B,T,3C) */, const float* out /* (B,T,C) */, const float* lse /* (B,H,T) */,
                        std::int64_t B, std::int64_t T, std::int64_t C, std::int64_t H);

namespace reference {
void attention_forward(float* out, float* lse, const float* qkv, std::int64_t B, std::int64_t T, std::int64_t C,
                       std::int64_t H);
void attention_backward(float* dqkv, const float* dout, const float* qkv, const float* out, const float* lse,
                        std::int64_t B, std::int64_t T, std::int64_t C, std::int64_t H);
}  // namespace reference

}  // namespace pipefill
