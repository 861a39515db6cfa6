// Causal attention on the CPU. A (batch, head) is one thread's work; a tile of query rows meets all keys up to its last
// row in one product, so scores need a tile x T buffer per thread, and tiles above the diagonal are never computed.
#include <cmath>
#include <string>

#include "kernels/attention/attention.hpp"
#include "kernels/matmul/sgemm.hpp"
#include "kernels/parallel.hpp"
#include "kernels/simd.hpp"

namespace pipefill {

namespace {

using simd::all;
using simd::F8;
using simd::kLanes;

constexpr std::int64_t kTile = 64;  // query rows

/// Distance of two rows of scores: a whole number of cache lines, and odd in them so that rows do not share cache sets.
std::int64_t score_stride(std::int64_t T) { return ((T + 15) / 16 | 1) * 16; }

struct Head {
  const float *q, *k, *v;  // (T,D), row stride 3C
};

struct Sizes {
  std::int64_t T, C, D, stride;
  float scale;
};

Head head_of(const float* qkv, std::int64_t b, std::int64_t h, const Sizes& s) {
  const float* q = qkv + b * s.T * 3 * s.C + h * s.D;
  return {q, q + s.C, q + 2 * s.C};
}

/// score (rows,keys) = q k^T of one tile, unscaled.
void products_with_keys(float* score, const float* x, std::int64_t row_x, const float* keys_or_values,
                        std::int64_t rows, std::int64_t keys, const Sizes& s) {
  sgemm(1, score, x, keys_or_values,
        {.m = rows, .n = keys, .k = s.D, .b = Transpose::yes, .lda = row_x, .ldb = 3 * s.C, .ldc = s.stride});
}

/// Turns the first `valid` scores into exp(scale * (score - largest)), the rest into 0; returns the sum, and lse.
float exponentials(float* row, std::int64_t valid, std::int64_t keys, float scale, float* lse) {
  const std::int64_t whole = valid / kLanes * kLanes;
  F8 largest8 = all(-INFINITY);
  for (std::int64_t i = 0; i < whole; i += kLanes) largest8 = simd::max(largest8, simd::load(row + i));
  if (whole < valid) largest8 = simd::max(largest8, simd::load_some(row + whole, valid - whole, -INFINITY));
  const float largest = simd::max_of(largest8);
  F8 sum8 = all(0);
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const F8 e = simd::exp((simd::load(row + i) - all(largest)) * all(scale));
    simd::store(row + i, e);
    sum8 += e;
  }
  if (whole < valid) {
    const F8 e = simd::exp((simd::load_some(row + whole, valid - whole, -INFINITY) - all(largest)) * all(scale));
    simd::store_some(row + whole, e, valid - whole);
    sum8 += e;
  }
  std::fill(row + valid, row + keys, 0.0F);
  const float sum = simd::sum_of(sum8);
  *lse = scale * largest + std::log(sum);
  return sum;
}

void forward_head(float* out, float* lse, const Head& head, float* score, const Sizes& s) {
  float sums[kTile];
  for (std::int64_t first = 0; first < s.T; first += kTile) {
    const std::int64_t rows = std::min(kTile, s.T - first);
    const std::int64_t keys = first + rows;
    products_with_keys(score, head.q + first * 3 * s.C, 3 * s.C, head.k, rows, keys, s);
    for (std::int64_t r = 0; r < rows; ++r) {
      sums[r] = exponentials(score + r * s.stride, first + r + 1, keys, s.scale, lse + first + r);
    }
    float* tile = out + first * s.C;
    sgemm(1, tile, score, head.v, {.m = rows, .n = s.D, .k = keys, .lda = s.stride, .ldb = 3 * s.C, .ldc = s.C});
    for (std::int64_t r = 0; r < rows; ++r) {
      const float inverse = 1.0F / sums[r];
      for (std::int64_t d = 0; d < s.D; ++d) tile[r * s.C + d] *= inverse;
    }
  }
}

/// probability (in: scores) = exp(scale * score - lse), dscore (in: gradient of the probability) = its gradient.
void score_gradients(float* probability, float* dscore, std::int64_t valid, std::int64_t keys, float scale, float lse,
                     float delta) {
  const std::int64_t whole = valid / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const F8 p = simd::exp(simd::load(probability + i) * all(scale) - all(lse));
    simd::store(probability + i, p);
    simd::store(dscore + i, p * (simd::load(dscore + i) - all(delta)) * all(scale));
  }
  if (whole < valid) {
    const std::int64_t count = valid - whole;
    const F8 p = simd::exp(simd::load_some(probability + whole, count, 0) * all(scale) - all(lse));
    simd::store_some(probability + whole, p, count);
    simd::store_some(dscore + whole, p * (simd::load_some(dscore + whole, count, 0) - all(delta)) * all(scale), count);
  }
  std::fill(probability + valid, probability + keys, 0.0F);
  std::fill(dscore + valid, dscore + keys, 0.0F);
}

float dot(const float* x, const float* y, std::int64_t n) {
  F8 sum8 = all(0);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum8 += simd::load(x + i) * simd::load(y + i);
  if (i < n) sum8 += simd::load_some(x + i, n - i, 0) * simd::load_some(y + i, n - i, 0);
  return simd::sum_of(sum8);
}

/// dq, dk, dv: (T,D), row stride 3C. The last tile meets all keys, so it goes first and overwrites; the others add.
void backward_head(float* dq, float* dk, float* dv, const float* dout, const Head& head, const float* out,
                   const float* lse, float* probability, float* dscore, const Sizes& s) {
  const std::int64_t row = 3 * s.C;
  for (std::int64_t first = (s.T - 1) / kTile * kTile; first >= 0; first -= kTile) {
    const std::int64_t rows = std::min(kTile, s.T - first);
    const std::int64_t keys = first + rows;
    const Accumulate accumulate = keys == s.T ? Accumulate::no : Accumulate::yes;
    const float* dtile = dout + first * s.C;
    products_with_keys(probability, head.q + first * row, row, head.k, rows, keys, s);
    products_with_keys(dscore, dtile, s.C, head.v, rows, keys, s);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float delta = dot(dtile + r * s.C, out + (first + r) * s.C, s.D);
      score_gradients(probability + r * s.stride, dscore + r * s.stride, first + r + 1, keys, s.scale, lse[first + r],
                      delta);
    }
    sgemm(1, dq + first * row, dscore, head.k,
          {.m = rows, .n = s.D, .k = keys, .lda = s.stride, .ldb = row, .ldc = row});
    MatmulShape transposed{.m = keys,
                           .n = s.D,
                           .k = rows,
                           .a = Transpose::yes,
                           .lda = s.stride,
                           .ldb = s.C,
                           .ldc = row,
                           .accumulate = accumulate};
    sgemm(1, dv, probability, dtile, transposed);
    transposed.ldb = row;
    sgemm(1, dk, dscore, head.q + first * row, transposed);
  }
}

Sizes sizes_of(std::int64_t T, std::int64_t C, std::int64_t H) {
  if (H < 1 || C % H != 0) {
    throw KernelError("attention needs a width that its heads divide, not C " + std::to_string(C) + " over H " +
                      std::to_string(H));
  }
  return {T, C, C / H, score_stride(T), 1.0F / std::sqrt(static_cast<float>(C / H))};
}

}  // namespace

void attention_forward(const KernelContext& ctx, float* out, float* lse, const float* qkv, std::int64_t B,
                       std::int64_t T, std::int64_t C, std::int64_t H) {
  const Sizes s = sizes_of(T, C, H);
  const std::int64_t tile = std::min(kTile, T) * s.stride;
  auto* scores = reinterpret_cast<float*>(ctx.scratch(ctx.threads() * tile * static_cast<std::int64_t>(sizeof(float))));
  parallel_parts(ctx, B * H, 1, T * T * s.D, [=, &s](std::int64_t begin, std::int64_t end) {
    float* score = scores + omp_get_thread_num() * tile;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / H;
      const std::int64_t h = i % H;
      forward_head(out + b * T * C + h * s.D, lse + i * T, head_of(qkv, b, h, s), score, s);
    }
  });
}

void attention_backward(const KernelContext& ctx, float* dqkv, const float* dout, const float* qkv, const float* out,
                        const float* lse, std::int64_t B, std::int64_t T, std::int64_t C, std::int64_t H) {
  const Sizes s = sizes_of(T, C, H);
  const std::int64_t tile = std::min(kTile, T) * s.stride;
  auto* scores =
      reinterpret_cast<float*>(ctx.scratch(ctx.threads() * 2 * tile * static_cast<std::int64_t>(sizeof(float))));
  parallel_parts(ctx, B * H, 1, T * T * s.D, [=, &s](std::int64_t begin, std::int64_t end) {
    float* probability = scores + omp_get_thread_num() * 2 * tile;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / H;
      const std::int64_t h = i % H;
      float* dq = dqkv + b * T * 3 * C + h * s.D;
      const std::int64_t at = b * T * C + h * s.D;
      backward_head(dq, dq + C, dq + 2 * C, dout + at, head_of(qkv, b, h, s), out + at, lse + i * T, probability,
                    probability + tile, s);
    }
  });
}

}  // namespace pipefill
