// Plain causal attention, one query at a time in double: the oracle of the fast one.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/attention.hpp"

namespace pipefill::reference {

namespace {

/// Where q (part 0), k (1) or v (2) of one (batch, token, head) begins in packed qkv.
std::int64_t at(std::int64_t part, std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t T, std::int64_t C,
                std::int64_t D) {
  return (b * T + t) * 3 * C + part * C + h * D;
}

double dot(const float* x, const float* y, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * y[i];
  return sum;
}

}  // namespace

void attention_forward(float* out, float* lse, const float* qkv, std::int64_t B, std::int64_t T, std::int64_t C,
                       std::int64_t H) {
  const std::int64_t D = C / H;
  const double scale = 1.0 / std::sqrt(static_cast<double>(D));
  std::vector<double> score(static_cast<std::size_t>(T));
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t h = 0; h < H; ++h) {
      for (std::int64_t t = 0; t < T; ++t) {
        const float* q = qkv + at(0, b, t, h, T, C, D);
        double largest = -INFINITY;
        for (std::int64_t s = 0; s <= t; ++s) {
          score[static_cast<std::size_t>(s)] = scale * dot(q, qkv + at(1, b, s, h, T, C, D), D);
          largest = std::max(largest, score[static_cast<std::size_t>(s)]);
        }
        double sum = 0;
        for (std::int64_t s = 0; s <= t; ++s) sum += std::exp(score[static_cast<std::size_t>(s)] - largest);
        const double log_sum = largest + std::log(sum);
        lse[(b * H + h) * T + t] = static_cast<float>(log_sum);
        for (std::int64_t d = 0; d < D; ++d) {
          double o = 0;
          for (std::int64_t s = 0; s <= t; ++s) {
            o += std::exp(score[static_cast<std::size_t>(s)] - log_sum) * qkv[at(2, b, s, h, T, C, D) + d];
          }
          out[(b * T + t) * C + h * D + d] = static_cast<float>(o);
        }
      }
    }
  }
}

void attention_backward(float* dqkv, const float* dout, const float* qkv, const float* out, const float* lse,
                        std::int64_t B, std::int64_t T, std::int64_t C, std::int64_t H) {
  const std::int64_t D = C / H;
  const double scale = 1.0 / std::sqrt(static_cast<double>(D));
  std::vector<double> d(static_cast<std::size_t>(B * T * 3 * C), 0.0);
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t h = 0; h < H; ++h) {
      for (std::int64_t t = 0; t < T; ++t) {
        const float* q = qkv + at(0, b, t, h, T, C, D);
        const float* o_gradient = dout + (b * T + t) * C + h * D;
        const double delta = dot(o_gradient, out + (b * T + t) * C + h * D, D);
        for (std::int64_t s = 0; s <= t; ++s) {
          const std::int64_t k = at(1, b, s, h, T, C, D);
          const std::int64_t v = at(2, b, s, h, T, C, D);
          const double p = std::exp(scale * dot(q, qkv + k, D) - lse[(b * H + h) * T + t]);
          const double ds = p * (dot(o_gradient, qkv + v, D) - delta) * scale;
          for (std::int64_t i = 0; i < D; ++i) {
            d[static_cast<std::size_t>(at(0, b, t, h, T, C, D) + i)] += ds * qkv[k + i];
            d[static_cast<std::size_t>(k + i)] += ds * q[i];
            d[static_cast<std::size_t>(v + i)] += p * o_gradient[i];
          }
        }
      }
    }
  }
  for (std::size_t i = 0; i < d.size(); ++i) dqkv[i] = static_cast<float>(d[i]);
}

}  // namespace pipefill::reference
