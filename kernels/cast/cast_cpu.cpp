// fp32 <-> bf16 on the CPU.
#include "kernels/cast/cast.hpp"
#include "kernels/parallel.hpp"

namespace pipefill {

namespace {
constexpr std::int64_t kGrain = 1024;
}

void cast(const KernelContext& ctx, Bf16* out, const float* in, std::int64_t n) {
  parallel_parts(ctx, n, kGrain, 1, [out, in](std::int64_t begin, std::int64_t end) {
    Bf16* __restrict to = out;
    const float* __restrict from = in;
    for (std::int64_t i = begin; i < end; ++i) to[i] = to_bf16(from[i]);
  });
}

void cast(const KernelContext& ctx, float* out, const Bf16* in, std::int64_t n) {
  parallel_parts(ctx, n, kGrain, 1, [out, in](std::int64_t begin, std::int64_t end) {
    float* __restrict to = out;
    const Bf16* __restrict from = in;
    for (std::int64_t i = begin; i < end; ++i) to[i] = to_float(from[i]);
  });
}

}  // namespace pipefill
