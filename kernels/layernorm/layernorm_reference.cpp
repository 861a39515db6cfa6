// Plain layer normalisation in double: the oracle of the fast one.
#include <cmath>

#include "kernels/layernorm/layernorm.hpp"
#include "kernels/residual/residual.hpp"

namespace pipefill::reference {

void layernorm_forward(float* y, float* mean, float* rstd, const float* x, const float* gamma, const float* beta,
                       std::int64_t N, std::int64_t C) {
  for (std::int64_t n = 0; n < N; ++n) {
    const float* row = x + n * C;
    double sum = 0;
    for (std::int64_t c = 0; c < C; ++c) sum += row[c];
    const double m = sum / static_cast<double>(C);
    double squares = 0;
    for (std::int64_t c = 0; c < C; ++c) squares += (row[c] - m) * (row[c] - m);
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(C) + static_cast<double>(kLayernormEpsilon));
    for (std::int64_t c = 0; c < C; ++c) y[n * C + c] = static_cast<float>((row[c] - m) * r * gamma[c] + beta[c]);
    mean[n] = static_cast<float>(m);
    rstd[n] = static_cast<float>(r);
  }
}

void residual_layernorm_forward(float* sum, float* y, float* mean, float* rstd, const float* residual,
                                const float* branch, const float* bias, const float* gamma, const float* beta,
                                std::int64_t N, std::int64_t C) {
  residual_add(sum, residual, branch, bias, N, C);
  layernorm_forward(y, mean, rstd, sum, gamma, beta, N, C);
}

void layernorm_backward_input(float* dx, const float* dy, const float* x, const float* mean, const float* rstd,
                              const float* gamma, std::int64_t N, std::int64_t C, Accumulate accumulate) {
  for (std::int64_t n = 0; n < N; ++n) {
    double sum_g = 0;   // of g = dy * gamma
    double sum_gx = 0;  // of g * xhat
    for (std::int64_t c = 0; c < C; ++c) {
      const double g = static_cast<double>(dy[n * C + c]) * gamma[c];
      sum_g += g;
      sum_gx += g * (static_cast<double>(x[n * C + c]) - mean[n]) * rstd[n];
    }
    for (std::int64_t c = 0; c < C; ++c) {
      const double g = static_cast<double>(dy[n * C + c]) * gamma[c];
      const double xhat = (static_cast<double>(x[n * C + c]) - mean[n]) * rstd[n];
      const double d = (g - sum_g / static_cast<double>(C) - xhat * sum_gx / static_cast<double>(C)) * rstd[n];
      const double before = accumulate == Accumulate::yes ? static_cast<double>(dx[n * C + c]) : 0.0;
      dx[n * C + c] = static_cast<float>(before + d);
    }
  }
}

void layernorm_backward_weight(float* dgamma, float* dbeta, const float* dy, const float* x, const float* mean,
                               const float* rstd, std::int64_t N, std::int64_t C) {
  for (std::int64_t c = 0; c < C; ++c) {
    double sum_gamma = dgamma[c];
    double sum_beta = dbeta[c];
    for (std::int64_t n = 0; n < N; ++n) {
      sum_gamma += dy[n * C + c] * (static_cast<double>(x[n * C + c]) - mean[n]) * rstd[n];
      sum_beta += dy[n * C + c];
    }
    dgamma[c] = static_cast<float>(sum_gamma);
    dbeta[c] = static_cast<float>(sum_beta);
  }
}

}  // namespace pipefill::reference
