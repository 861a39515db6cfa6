// Layer normalisation on the CPU: a row stays in the first-level cache for its three passes (mean, variance, result).
#include <cmath>

#include "kernels/layernorm/layernorm.hpp"
#include "kernels/parallel.hpp"
#include "kernels/simd.hpp"

namespace pipefill {

namespace {

using simd::all;
using simd::F8;
using simd::kLanes;

/// Sum over c of f(c, lanes) where f loads eight elements at c, or the last few with zeros behind them.
template <class Whole, class Some>
float row_sum(std::int64_t C, const Whole& whole, const Some& some) {
  F8 sum0 = all(0);
  F8 sum1 = all(0);
  std::int64_t c = 0;
  for (; c + 2 * kLanes <= C; c += 2 * kLanes) {
    sum0 += whole(c);
    sum1 += whole(c + kLanes);
  }
  if (c + kLanes <= C) {
    sum0 += whole(c);
    c += kLanes;
  }
  if (c < C) sum1 += some(c, C - c);
  return simd::sum_of(sum0 + sum1);
}

void put(float* y, float value) { *y = value; }
void put(Bf16* y, float value) { *y = to_bf16(value); }

template <class Out>
void normalise_row(Out* __restrict y, float* mean, float* rstd, const float* __restrict x, const float* gamma,
                   const float* beta, std::int64_t C) {
  const float inverse = 1.0F / static_cast<float>(C);
  const float m = inverse * row_sum(
                                C, [=](std::int64_t c) { return simd::load(x + c); },
                                [=](std::int64_t c, std::int64_t count) { return simd::load_some(x + c, count, 0); });
  const float variance = inverse * row_sum(
                                       C,
                                       [=](std::int64_t c) {
                                         const F8 d = simd::load(x + c) - all(m);
                                         return d * d;
                                       },
                                       [=](std::int64_t c, std::int64_t count) {
                                         const F8 d = simd::load_some(x + c, count, m) - all(m);
                                         return d * d;
                                       });
  const float r = 1.0F / std::sqrt(variance + kLayernormEpsilon);
  for (std::int64_t c = 0; c < C; ++c) put(y + c, ((x[c] - m) * r) * gamma[c] + beta[c]);
  *mean = m;
  *rstd = r;
}

template <class Out>
void forward(const KernelContext& ctx, Out* y, float* mean, float* rstd, const float* x, const float* gamma,
             const float* beta, std::int64_t N, std::int64_t C) {
  parallel_parts(ctx, N, 1, 3 * C, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      normalise_row(y + n * C, mean + n, rstd + n, x + n * C, gamma, beta, C);
    }
  });
}

template <class Out>
void residual_forward(const KernelContext& ctx, float* sum, Out* y, float* mean, float* rstd, const float* residual,
                      const float* branch, const float* bias, const float* gamma, const float* beta, std::int64_t N,
                      std::int64_t C) {
  parallel_parts(ctx, N, 1, 4 * C, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      float* row = sum + n * C;
      const float* a = residual + n * C;
      const float* b = branch + n * C;
      if (bias != nullptr) {
        for (std::int64_t c = 0; c < C; ++c) row[c] = a[c] + (b[c] + bias[c]);
      } else {
        for (std::int64_t c = 0; c < C; ++c) row[c] = a[c] + b[c];
      }
      normalise_row(y + n * C, mean + n, rstd + n, row, gamma, beta, C);
    }
  });
}

}  // namespace

void layernorm_forward(const KernelContext& ctx, float* y, float* mean, float* rstd, const float* x, const float* gamma,
                       const float* beta, std::int64_t N, std::int64_t C) {
  forward(ctx, y, mean, rstd, x, gamma, beta, N, C);
}
void layernorm_forward(const KernelContext& ctx, Bf16* y, float* mean, float* rstd, const float* x, const float* gamma,
                       const float* beta, std::int64_t N, std::int64_t C) {
  forward(ctx, y, mean, rstd, x, gamma, beta, N, C);
}

void residual_layernorm_forward(const KernelContext& ctx, float* sum, float* y, float* mean, float* rstd,
                                const float* residual, const float* branch, const float* bias, const float* gamma,
                                const float* beta, std::int64_t N, std::int64_t C) {
  residual_forward(ctx, sum, y, mean, rstd, residual, branch, bias, gamma, beta, N, C);
}
void residual_layernorm_forward(const KernelContext& ctx, float* sum, Bf16* y, float* mean, float* rstd,
                                const float* residual, const float* branch, const float* bias, const float* gamma,
                                const float* beta, std::int64_t N, std::int64_t C) {
  residual_forward(ctx, sum, y, mean, rstd, residual, branch, bias, gamma, beta, N, C);
}

void layernorm_backward_input(const KernelContext& ctx, float* dx, const float* dy, const float* x, const float* mean,
                              const float* rstd, const float* gamma, std::int64_t N, std::int64_t C,
                              Accumulate accumulate) {
  parallel_parts(ctx, N, 1, 4 * C, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const float* up = dy + n * C;
      const float* in = x + n * C;
      float* down = dx + n * C;
      const float m = mean[n];
      const float r = rstd[n];
      const float inverse = 1.0F / static_cast<float>(C);
      const float mean_g =
          inverse * row_sum(
                        C, [=](std::int64_t c) { return simd::load(up + c) * simd::load(gamma + c); },
                        [=](std::int64_t c, std::int64_t count) {
                          return simd::load_some(up + c, count, 0) * simd::load_some(gamma + c, count, 0);
                        });
      const float mean_gx = inverse * r *
                            row_sum(
                                C,
                                [=](std::int64_t c) {
                                  return (simd::load(up + c) * simd::load(gamma + c)) * (simd::load(in + c) - all(m));
                                },
                                [=](std::int64_t c, std::int64_t count) {
                                  return (simd::load_some(up + c, count, 0) * simd::load_some(gamma + c, count, 0)) *
                                         (simd::load_some(in + c, count, m) - all(m));
                                });
      if (accumulate == Accumulate::yes) {
        for (std::int64_t c = 0; c < C; ++c) {
          down[c] += r * (up[c] * gamma[c] - mean_g - ((in[c] - m) * r) * mean_gx);
        }
      } else {
        for (std::int64_t c = 0; c < C; ++c) {
          down[c] = r * (up[c] * gamma[c] - mean_g - ((in[c] - m) * r) * mean_gx);
        }
      }
    }
  });
}

void layernorm_backward_weight(const KernelContext& ctx, float* dgamma, float* dbeta, const float* dy, const float* x,
                               const float* mean, const float* rstd, std::int64_t N, std::int64_t C) {
  parallel_parts(ctx, C, 16, 2 * N, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = 0; n < N; ++n) {
      const float* __restrict up = dy + n * C;
      const float* __restrict in = x + n * C;
      const float m = mean[n];
      const float r = rstd[n];
      for (std::int64_t c = begin; c < end; ++c) {
        dgamma[c] += up[c] * ((in[c] - m) * r);
        dbeta[c] += up[c];
      }
    }
  });
}

}  // namespace pipefill
