// Plain GELU of x + b in double: the oracle of the fast one.
#include <cmath>
#include <numbers>

#include "kernels/bias_gelu/bias_gelu.hpp"

namespace pipefill::reference {

namespace {
const double kSlope = std::sqrt(2.0 / std::numbers::pi);
constexpr double kCubic = 0.044715;
}  // namespace

void bias_gelu_forward(float* y, const float* x, const float* bias, std::int64_t N, std::int64_t C) {
  for (std::int64_t i = 0; i < N * C; ++i) {
    const double u = static_cast<double>(x[i]) + bias[i % C];
    y[i] = static_cast<float>(0.5 * u * (1.0 + std::tanh(kSlope * (u + kCubic * u * u * u))));
  }
}

void bias_gelu_backward(float* dx, const float* dy, const float* x, const float* bias, std::int64_t N, std::int64_t C) {
  for (std::int64_t i = 0; i < N * C; ++i) {
    const double u = static_cast<double>(x[i]) + bias[i % C];
    const double t = std::tanh(kSlope * (u + kCubic * u * u * u));
    const double slope = 0.5 * (1.0 + t) + 0.5 * u * (1.0 - t * t) * kSlope * (1.0 + 3.0 * kCubic * u * u);
    dx[i] = static_cast<float>(dy[i] * slope);
  }
}

}  // namespace pipefill::reference
