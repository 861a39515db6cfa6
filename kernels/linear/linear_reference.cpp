// Plain linear layer: the oracle of the fast one.
#include "kernels/linear/linear.hpp"

namespace pipefill::reference {

void linear_forward(float* y, const float* x, const float* weight, const float* bias, std::int64_t N, std::int64_t C,
                    std::int64_t OC) {
  for (std::int64_t n = 0; n < N; ++n) {
    for (std::int64_t o = 0; o < OC; ++o) {
      double sum = bias != nullptr ? static_cast<double>(bias[o]) : 0.0;
      for (std::int64_t c = 0; c < C; ++c) sum += static_cast<double>(x[n * C + c]) * weight[o * C + c];
      y[n * OC + o] = static_cast<float>(sum);
    }
  }
}

void linear_backward_input(float* dx, const float* dy, const float* weight, std::int64_t N, std::int64_t C,
                           std::int64_t OC, Accumulate accumulate) {
  for (std::int64_t n = 0; n < N; ++n) {
    for (std::int64_t c = 0; c < C; ++c) {
      double sum = accumulate == Accumulate::yes ? static_cast<double>(dx[n * C + c]) : 0.0;
      for (std::int64_t o = 0; o < OC; ++o) sum += static_cast<double>(dy[n * OC + o]) * weight[o * C + c];
      dx[n * C + c] = static_cast<float>(sum);
    }
  }
}

void linear_backward_weight(float* dweight, float* dbias, const float* x, const float* dy, std::int64_t N,
                            std::int64_t C, std::int64_t OC) {
  for (std::int64_t o = 0; o < OC; ++o) {
    for (std::int64_t c = 0; c < C; ++c) {
      double sum = dweight[o * C + c];
      for (std::int64_t n = 0; n < N; ++n) sum += static_cast<double>(dy[n * OC + o]) * x[n * C + c];
      dweight[o * C + c] = static_cast<float>(sum);
    }
    if (dbias == nullptr) continue;
    double sum = dbias[o];
    for (std::int64_t n = 0; n < N; ++n) sum += dy[n * OC + o];
    dbias[o] = static_cast<float>(sum);
  }
}

}  // namespace pipefill::reference
