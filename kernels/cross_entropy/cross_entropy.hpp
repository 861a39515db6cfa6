// Softmax and cross entropy over the vocabulary, on the logits themselves: backward turns them into their gradient in
// place. Rows are padded to Vp >= V columns; the padding is never read, and its gradient is zero.
#pragma once

#include <cstdint>

#include "kernels/bf16.hpp"
#include "kernels/context.hpp"

namespace pipefill {

/// loss[n] = lse[n] - logits[n, targets[n]], lse[n] = log sum_v exp(logits[n,v]). Caller has checked 0 <= targets < V.
void cross_entropy_forward(const KernelContext& ctx, float* loss /* (N) */, float* lse /* (N) */,
                           const float* logits /* (N,Vp) */, const std::int32_t* targets /* (N) */, std::int64_t N,
                           std::int64_t V, std::int64_t Vp);

/// logits -> scale * (softmax(logits) - onehot(targets)), in place. `scale` is 1/(tokens of the whole step), say.
void cross_entropy_backward(const KernelContext& ctx, float* logits /* (N,Vp) in and out */, const float* lse /* (N) */,
                            const std::int32_t* targets /* (N) */, float scale, std::int64_t N, std::int64_t V,
                            std::int64_t Vp);

/// The same gradient as bf16, written over the first half of each fp32 row: returns the logits' memory as (N,Vp) with
/// row stride 2*Vp.
Bf16* cross_entropy_backward_bf16(const KernelContext& ctx, float* logits /* (N,Vp) in; bf16 (N,Vp) stride 2*Vp out */,
                                  const float* lse /* (N) */, const std::int32_t* targets /* (N) */, float scale,
                                  std::int64_t N, std::int64_t V, std::int64_t Vp);

/// Forward and backward in one pass over each row while it is in the cache: one exponential per logit instead of two,
/// a third of the memory traffic. For callers that need no logits after the loss.
void cross_entropy_forward_backward(const KernelContext& ctx, float* loss /* (N) */,
                                    float* logits /* (N,Vp) in and out */, const std::int32_t* targets /* (N) */,
                                    float scale, std::int64_t N, std::int64_t V, std::int64_t Vp);
Bf16* cross_entropy_forward_backward_bf16(const KernelContext& ctx, float* loss /* (N) */,
                                          float* logits /* (N,Vp) in; bf16 (N,Vp) stride 2*Vp out */,
                                          const std::int32_t* targets /* (N) */, float scale, std::int64_t N,
                                          std::int64_t V, std::int64_t Vp);

namespace reference {
void cross_entropy_forward(float* loss, float* lse, const float* logits, const std::int32_t* targets, std::int64_t N,
                           std::int64_t V, std::int64_t Vp);
void cross_entropy_backward(float* logits, const float* lse, const std::int32_t* targets, float scale, std::int64_t N,
                            std::int64_t V, std::int64_t Vp);
}  // namespace reference

}  // namespace pipefill
