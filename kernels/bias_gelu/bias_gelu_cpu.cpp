// GELU of x + b, eight elements at a time. 0.5 (1 + tanh(w)) = 1 / (1 + exp(-2w)) = s, so one exponential serves both
// the value u s and the slope s + u s (1-s) 2w', with 1-s = exp(-2w) s free of cancellation.
#include "kernels/bias_gelu/bias_gelu.hpp"
#include "kernels/parallel.hpp"
#include "kernels/simd.hpp"

namespace pipefill {

namespace {

using simd::all;
using simd::F8;
using simd::kLanes;

constexpr float kSlope = 0.79788456080286536F;  // sqrt(2/pi)
constexpr float kCubic = 0.044715F;
constexpr std::int64_t kWork = 8;  // an exponential and a division against a plain element operation

/// exp(-2w), kept finite so that exp(-2w) * s never becomes infinity times zero.
[[gnu::always_inline]] inline F8 exp_minus_2w(F8 u) {
  const F8 minus_2w = all(-2.0F * kSlope) * (u + all(kCubic) * (u * u * u));
  return simd::exp(minus_2w > all(80.0F) ? all(80.0F) : minus_2w);
}

[[gnu::always_inline]] inline F8 gelu(F8 u) { return u / (all(1.0F) + exp_minus_2w(u)); }

[[gnu::always_inline]] inline F8 gelu_slope(F8 u) {
  const F8 e = exp_minus_2w(u);
  const F8 s = all(1.0F) / (all(1.0F) + e);
  const F8 inner = all(2.0F * kSlope) * (all(1.0F) + all(3.0F * kCubic) * (u * u));
  return s + (u * s) * ((e * s) * inner);
}

void put(float* p, F8 v, std::int64_t count) {
  if (count == kLanes) {
    simd::store(p, v);
  } else {
    simd::store_some(p, v, count);
  }
}
void put(Bf16* p, F8 v, std::int64_t count) {
  const simd::H8 h = simd::to_bf16_bits(v);
  std::memcpy(p, &h, static_cast<std::size_t>(count) * sizeof(Bf16));
}

template <class Out>
void forward(const KernelContext& ctx, Out* y, const float* x, const float* bias, std::int64_t N, std::int64_t C) {
  parallel_parts(ctx, N, 1, C * kWork, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const float* in = x + n * C;
      Out* out = y + n * C;
      std::int64_t c = 0;
      for (; c + kLanes <= C; c += kLanes) put(out + c, gelu(simd::load(in + c) + simd::load(bias + c)), kLanes);
      if (c < C) {
        put(out + c, gelu(simd::load_some(in + c, C - c, 0) + simd::load_some(bias + c, C - c, 0)), C - c);
      }
    }
  });
}

}  // namespace

void bias_gelu_forward(const KernelContext& ctx, float* y, const float* x, const float* bias, std::int64_t N,
                       std::int64_t C) {
  forward(ctx, y, x, bias, N, C);
}
void bias_gelu_forward(const KernelContext& ctx, Bf16* y, const float* x, const float* bias, std::int64_t N,
                       std::int64_t C) {
  forward(ctx, y, x, bias, N, C);
}

void bias_gelu_backward(const KernelContext& ctx, float* dx, const float* dy, const float* x, const float* bias,
                        std::int64_t N, std::int64_t C) {
  parallel_parts(ctx, N, 1, C * kWork, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const float* in = x + n * C;
      const float* up = dy + n * C;
      float* down = dx + n * C;
      std::int64_t c = 0;
      for (; c + kLanes <= C; c += kLanes) {
        simd::store(down + c, simd::load(up + c) * gelu_slope(simd::load(in + c) + simd::load(bias + c)));
      }
      if (c < C) {
        const F8 u = simd::load_some(in + c, C - c, 0) + simd::load_some(bias + c, C - c, 0);
        simd::store_some(down + c, simd::load_some(up + c, C - c, 0) * gelu_slope(u), C - c);
      }
    }
  });
}

}  // namespace pipefill
