// Attention of one new position per sequence over the keys and values of all positions so far (a key/value cache).
#pragma once

#include <cstdint>

#include "kernels/context.hpp"

namespace pipefill {

/// out[b] = sum_s softmax_s(q[b] k[b,s] / sqrt(D)) v[b,s] per head, s = 0..t. qkv holds the C floats of q, k and v of
/// the position t, of which q is read: the caller has put k and v into the cache. S >= t+1: positions the cache holds.
/// Same bits at any thread count: a (sequence, head) is one thread's work.
void attention_step(const KernelContext& ctx, float* out /* (B,C) */, const float* qkv /* (B,3C) */,
                    const float* keys /* (B,S,C) */, const float* values /* (B,S,C) */, std::int64_t B, std::int64_t S,
                    std::int64_t t, std::int64_t C, std::int64_t H);

namespace reference {
void attention_step(float* out, const float* qkv, const float* keys, const float* values, std::int64_t B,
                    std::int64_t S, std::int64_t t, std::int64_t C, std::int64_t H);
}  // namespace reference

}  // namespace pipefill
