// Token plus learned position embedding. Its backward has a weight part only (it is the model's first op).
#pragma once

#include <cstdint>

#include "kernels/context.hpp"

namespace pipefill {

/// out[b,t] = token_table[tokens[b,t]] + position_table[t]. The caller has checked 0 <= tokens < V.
void embedding_forward(const KernelContext& ctx, float* out /* (B,T,C) */, const std::int32_t* tokens /* (B,T) */,
                       const float* token_table /* (V,C) */, const float* position_table /* (T,C) */, std::int64_t B,
                       std::int64_t T, std::int64_t C);

/// dtoken_table[tokens[b,t]] += dout[b,t], dposition_table[t] += dout[b,t], both in ascending (b,t): the order, and so
/// the bits, do not depend on the thread count.
void embedding_backward(const KernelContext& ctx, float* dtoken_table /* (V,C) */, float* dposition_table /* (T,C) */,
                        const float* dout /* (B,T,C) */, const std::int32_t* tokens /* (B,T) */, std::int64_t B,
                        std::int64_t T, std::int64_t C);

namespace reference {
void embedding_forward(float* out, const std::int32_t* tokens, const float* token_table, const float* position_table,
                       std::int64_t B, std::int64_t T, std::int64_t C);
void embedding_backward(float* dtoken_table, float* dposition_table, const float* dout, const std::int32_t* tokens,
                        std::int64_t B, std::int64_t T, std::int64_t C);
}  // namespace reference

}  // namespace pipefill
