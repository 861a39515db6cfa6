// The residual connection on the CPU.
#include "kernels/parallel.hpp"
#include "kernels/residual/residual.hpp"

namespace pipefill {

void residual_add(const KernelContext& ctx, float* out, const float* residual, const float* branch, const float* bias,
                  std::int64_t N, std::int64_t C) {
  parallel_parts(ctx, N, 1, C, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      float* row = out + n * C;
      const float* a = residual + n * C;
      const float* b = branch + n * C;
      if (bias != nullptr) {
        for (std::int64_t c = 0; c < C; ++c) row[c] = a[c] + (b[c] + bias[c]);
      } else {
        for (std::int64_t c = 0; c < C; ++c) row[c] = a[c] + b[c];
      }
    }
  });
}

}  // namespace pipefill
