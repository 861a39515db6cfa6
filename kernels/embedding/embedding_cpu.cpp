// The embedding on the CPU. Forward shares out rows; backward shares out columns, so that two equal tokens are always
// added by the same thread, in ascending order, without atomics.
#include "kernels/embedding/embedding.hpp"
#include "kernels/parallel.hpp"

namespace pipefill {

void embedding_forward(const KernelContext& ctx, float* out, const std::int32_t* tokens, const float* token_table,
                       const float* position_table, std::int64_t B, std::int64_t T, std::int64_t C) {
  parallel_parts(ctx, B * T, 1, C, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      float* __restrict row = out + n * C;
      const float* token = token_table + tokens[n] * C;
      const float* position = position_table + (n % T) * C;
      for (std::int64_t c = 0; c < C; ++c) row[c] = token[c] + position[c];
    }
  });
}

void embedding_backward(const KernelContext& ctx, float* dtoken_table, float* dposition_table, const float* dout,
                        const std::int32_t* tokens, std::int64_t B, std::int64_t T, std::int64_t C) {
  parallel_parts(ctx, C, 16, 2 * B * T, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = 0; n < B * T; ++n) {
      const float* __restrict row = dout + n * C;
      float* __restrict token = dtoken_table + tokens[n] * C;
      float* __restrict position = dposition_table + (n % T) * C;
      for (std::int64_t c = begin; c < end; ++c) {
        token[c] += row[c];
        position[c] += row[c];
      }
    }
  });
}

}  // namespace pipefill
