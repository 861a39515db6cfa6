// One (sequence, head) at a time: scores, softmax, weighted sum; eight floats of the head at once.
#include "kernels/attention_step/attention_step.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/parallel.hpp"
#include "kernels/simd.hpp"

namespace pipefill {
namespace {

using simd::F8;
using simd::kLanes;

float dot(const float* a, const float* b, std::int64_t n) {
  F8 sum = simd::all(0);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum += simd::load(a + i) * simd::load(b + i);
  if (i < n) sum += simd::load_some(a + i, n - i, 0) * simd::load_some(b + i, n - i, 0);
  return simd::sum_of(sum);
}

void add_scaled(float* sum, const float* x, float factor, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    simd::store(sum + i, simd::load(sum + i) + simd::load(x + i) * simd::all(factor));
  for (; i < n; ++i) sum[i] += x[i] * factor;
}

/// In place: exp(score - most), their sum returned.
float exponentials(float* scores, std::int64_t n) {
  const F8 most = simd::all(*std::max_element(scores, scores + n));
  float sum = 0;
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const std::int64_t count = std::min(kLanes, n - i);
    const F8 e = simd::exp(simd::load_some(scores + i, count, most[0]) - most);
    simd::store_some(scores + i, e, count);
    for (std::int64_t j = 0; j < count; ++j) sum += e[j];
  }
  return sum;
}

}  // namespace

void attention_step(const KernelContext& ctx, float* out, const float* qkv, const float* keys, const float* values,
                    std::int64_t B, std::int64_t S, std::int64_t t, std::int64_t C, std::int64_t H) {
  const std::int64_t D = C / H;
  const float scale = 1 / std::sqrt(static_cast<float>(D));
  auto* all_scores = reinterpret_cast<float*>(ctx.scratch(B * H * (t + 1) * static_cast<std::int64_t>(sizeof(float))));
  parallel_parts(ctx, B * H, 1, 4 * D * (t + 1), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / H, h = i % H;
      const float* q = qkv + b * 3 * C + h * D;
      const float* k = keys + b * S * C + h * D;
      const float* v = values + b * S * C + h * D;
      float* scores = all_scores + i * (t + 1);
      float* mixed = out + b * C + h * D;
      for (std::int64_t s = 0; s <= t; ++s) scores[s] = scale * dot(q, k + s * C, D);
      const float sum = exponentials(scores, t + 1);
      std::fill_n(mixed, D, 0.0F);
      for (std::int64_t s = 0; s <= t; ++s) add_scaled(mixed, v + s * C, scores[s] / sum, D);
    }
  });
}

}  // namespace pipefill
