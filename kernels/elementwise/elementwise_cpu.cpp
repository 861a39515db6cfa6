// The small elementwise ops on the CPU.
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/parallel.hpp"

namespace pipefill {

namespace {
constexpr std::int64_t kGrain = 1024;
}

void fill(const KernelContext& ctx, float* x, float value, std::int64_t n) {
  parallel_parts(ctx, n, kGrain, 1,
                 [=](std::int64_t begin, std::int64_t end) { std::fill(x + begin, x + end, value); });
}

void add_into(const KernelContext& ctx, float* sum, const float* x, std::int64_t n) {
  parallel_parts(ctx, n, kGrain, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) sum[i] += x[i];
  });
}

void scale(const KernelContext& ctx, float* x, float factor, std::int64_t n) {
  parallel_parts(ctx, n, kGrain, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) x[i] *= factor;
  });
}

}  // namespace pipefill
