// Cross entropy on the CPU. A row of logits is read from memory once: its largest value and its sum are kept running
// over blocks of the first-level cache (Milakov & Gimelshein 2018, algorithm 3).
#include <cmath>

#include "kernels/cross_entropy/cross_entropy.hpp"
#include "kernels/parallel.hpp"
#include "kernels/simd.hpp"

namespace pipefill {

namespace {

using simd::all;
using simd::F8;
using simd::kLanes;

constexpr std::int64_t kBlock = 1024;
constexpr std::int64_t kWork = 8;  // an exponential against a plain element operation

float largest_of(const float* x, std::int64_t n) {
  F8 largest0 = all(-INFINITY);
  F8 largest1 = all(-INFINITY);
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    largest0 = simd::max(simd::load(x + i), largest0);
    largest1 = simd::max(simd::load(x + i + kLanes), largest1);
  }
  for (; i < n; i += kLanes) {
    largest0 = simd::max(simd::load_some(x + i, std::min(kLanes, n - i), -INFINITY), largest0);
  }
  return simd::max_of(simd::max(largest0, largest1));
}

enum class Keep { no, yes };

/// Sum of exp(x - reference); keeps the exponentials in place of x if asked.
template <Keep keep, class Float>
float sum_of_exponentials(Float* x, std::int64_t n, float reference) {
  F8 sum = all(0);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F8 e = simd::exp(simd::load(x + i) - all(reference));
    if constexpr (keep == Keep::yes) simd::store(x + i, e);
    sum += e;
  }
  if (i < n) {
    const F8 e = simd::exp(simd::load_some(x + i, n - i, -INFINITY) - all(reference));
    if constexpr (keep == Keep::yes) simd::store_some(x + i, e, n - i);
    sum += e;
  }
  return simd::sum_of(sum);
}

struct RowSum {
  float largest;
  double sum;  // of exp(x - largest)
};

/// `references` (one per block, or null) receives what each block's exponentials are relative to.
template <Keep keep, class Float>
RowSum reduce_row(Float* row, std::int64_t V, float* references) {
  RowSum total{-INFINITY, 0.0};
  for (std::int64_t v = 0; v < V; v += kBlock) {
    const std::int64_t n = std::min(kBlock, V - v);
    const float largest = std::max(total.largest, largest_of(row + v, n));
    const double shrink = largest > total.largest ? std::exp(static_cast<double>(total.largest) - largest) : 1.0;
    total = {largest, total.sum * shrink + static_cast<double>(sum_of_exponentials<keep>(row + v, n, largest))};
    if constexpr (keep == Keep::yes) references[v / kBlock] = largest;
  }
  return total;
}

void put(float* p, F8 v, std::int64_t count) { simd::store_some(p, v, count); }
void put(Bf16* p, F8 v, std::int64_t count) {
  const simd::H8 h = simd::to_bf16_bits(v);
  std::memcpy(p, &h, static_cast<std::size_t>(count) * sizeof(Bf16));
}
void put_one(float* p, float v) { *p = v; }
void put_one(Bf16* p, float v) {
  const Bf16 rounded = to_bf16(v);
  std::memcpy(p, &rounded, sizeof rounded);  // the memory still counts as float's
}

/// out[i] = value(x[i]) over [0,n), eight at a time. A bf16 `out` may begin where x begins: it never overtakes x.
template <class Out, class Value>
void transform(Out* out, const float* x, std::int64_t n, const Value& value) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) put(out + i, value(simd::load(x + i)), kLanes);
  if (i < n) put(out + i, value(simd::load_some(x + i, n - i, 0)), n - i);
}

template <class Out>
Out* row_of(float* logits, std::int64_t n, std::int64_t Vp) {
  return reinterpret_cast<Out*>(logits + n * Vp);
}

template <class Out>
Out* backward(const KernelContext& ctx, float* logits, const float* lse, const std::int32_t* targets, float scale,
              std::int64_t N, std::int64_t V, std::int64_t Vp) {
  parallel_parts(ctx, N, 1, V * kWork, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      float* row = logits + n * Vp;
      Out* out = row_of<Out>(logits, n, Vp);
      const F8 at_target = simd::exp(all(row[targets[n]] - lse[n]));
      transform(out, row, V, [=](F8 x) { return simd::exp(x - all(lse[n])) * all(scale); });
      put_one(out + targets[n], scale * (at_target[0] - 1.0F));
      std::fill(out + V, out + Vp, Out{});
    }
  });
  return row_of<Out>(logits, 0, Vp);
}

template <class Out>
Out* forward_backward(const KernelContext& ctx, float* loss, float* logits, const std::int32_t* targets, float scale,
                      std::int64_t N, std::int64_t V, std::int64_t Vp) {
  const std::int64_t blocks = ((V + kBlock - 1) / kBlock + 15) / 16 * 16;
  auto* all_references =
      reinterpret_cast<float*>(ctx.scratch(ctx.threads() * blocks * static_cast<std::int64_t>(sizeof(float))));
  parallel_parts(ctx, N, 1, V * kWork, [=](std::int64_t begin, std::int64_t end) {
    float* references = all_references + omp_get_thread_num() * blocks;
    for (std::int64_t n = begin; n < end; ++n) {
      float* row = logits + n * Vp;
      Out* out = row_of<Out>(logits, n, Vp);
      const float target_logit = row[targets[n]];
      const RowSum total = reduce_row<Keep::yes>(row, V, references);
      loss[n] = static_cast<float>(total.largest + std::log(total.sum) - target_logit);
      const double p = std::exp(static_cast<double>(target_logit) - total.largest) / total.sum;
      for (std::int64_t v = 0; v < V; v += kBlock) {
        const double relative = std::exp(static_cast<double>(references[v / kBlock]) - total.largest);
        const auto factor = static_cast<float>(scale * (relative / total.sum));
        transform(out + v, row + v, std::min(kBlock, V - v), [=](F8 e) { return e * all(factor); });
      }
      put_one(out + targets[n], static_cast<float>(scale * (p - 1.0)));
      std::fill(out + V, out + Vp, Out{});
    }
  });
  return row_of<Out>(logits, 0, Vp);
}

}  // namespace

void cross_entropy_forward(const KernelContext& ctx, float* loss, float* lse, const float* logits,
                           const std::int32_t* targets, std::int64_t N, std::int64_t V, std::int64_t Vp) {
  parallel_parts(ctx, N, 1, V * kWork, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const float* row = logits + n * Vp;
      const RowSum total = reduce_row<Keep::no>(row, V, nullptr);
      const double log_sum = total.largest + std::log(total.sum);
      lse[n] = static_cast<float>(log_sum);
      loss[n] = static_cast<float>(log_sum - row[targets[n]]);
    }
  });
}

void cross_entropy_backward(const KernelContext& ctx, float* logits, const float* lse, const std::int32_t* targets,
                            float scale, std::int64_t N, std::int64_t V, std::int64_t Vp) {
  backward<float>(ctx, logits, lse, targets, scale, N, V, Vp);
}
Bf16* cross_entropy_backward_bf16(const KernelContext& ctx, float* logits, const float* lse,
                                  const std::int32_t* targets, float scale, std::int64_t N, std::int64_t V,
                                  std::int64_t Vp) {
  return backward<Bf16>(ctx, logits, lse, targets, scale, N, V, Vp);
}

void cross_entropy_forward_backward(const KernelContext& ctx, float* loss, float* logits, const std::int32_t* targets,
                                    float scale, std::int64_t N, std::int64_t V, std::int64_t Vp) {
  forward_backward<float>(ctx, loss, logits, targets, scale, N, V, Vp);
}
Bf16* cross_entropy_forward_backward_bf16(const KernelContext& ctx, float* loss, float* logits,
                                          const std::int32_t* targets, float scale, std::int64_t N, std::int64_t V,
                                          std::int64_t Vp) {
  return forward_backward<Bf16>(ctx, loss, logits, targets, scale, N, V, Vp);
}

}  // namespace pipefill
