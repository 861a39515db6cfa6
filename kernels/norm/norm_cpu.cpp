// Sum of squares on the CPU: blocks of 4096, eight double lanes each; the blocks' sums are added in order.
#include "kernels/norm/norm.hpp"
#include "kernels/parallel.hpp"

namespace pipefill {

namespace {

constexpr std::int64_t kBlock = 4096;
constexpr int kSums = 8;

double block_sum(const float* x, std::int64_t n) {
  double sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int l = 0; l < kSums; ++l) sums[l] += static_cast<double>(x[i + l]) * static_cast<double>(x[i + l]);
  }
  for (int l = 0; i < n; ++i, ++l) sums[l] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

}  // namespace

double squared_norm(const KernelContext& ctx, const float* x, std::int64_t n) {
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  auto* partial = reinterpret_cast<double*>(ctx.scratch(blocks * static_cast<std::int64_t>(sizeof(double))));
  parallel_parts(ctx, blocks, 1, kBlock, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) partial[b] = block_sum(x + b * kBlock, std::min(kBlock, n - b * kBlock));
  });
  double sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) sum += partial[b];
  return sum;
}

}  // namespace pipefill
