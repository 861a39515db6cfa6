// Plain softmax cross entropy in double: the oracle of the fast one.
#include <algorithm>
#include <cmath>

#include "kernels/cross_entropy/cross_entropy.hpp"

namespace pipefill::reference {

void cross_entropy_forward(float* loss, float* lse, const float* logits, const std::int32_t* targets, std::int64_t N,
                           std::int64_t V, std::int64_t Vp) {
  for (std::int64_t n = 0; n < N; ++n) {
    const float* row = logits + n * Vp;
    const double largest = *std::max_element(row, row + V);
    double sum = 0;
    for (std::int64_t v = 0; v < V; ++v) sum += std::exp(row[v] - largest);
    lse[n] = static_cast<float>(largest + std::log(sum));
    loss[n] = static_cast<float>(largest + std::log(sum) - row[targets[n]]);
  }
}

void cross_entropy_backward(float* logits, const float* lse, const std::int32_t* targets, float scale, std::int64_t N,
                            std::int64_t V, std::int64_t Vp) {
  for (std::int64_t n = 0; n < N; ++n) {
    float* row = logits + n * Vp;
    for (std::int64_t v = 0; v < V; ++v) {
      const double p = std::exp(static_cast<double>(row[v]) - lse[n]);
      row[v] = static_cast<float>(scale * (p - (v == targets[n] ? 1.0 : 0.0)));
    }
    std::fill(row + V, row + Vp, 0.0F);
  }
}

}  // namespace pipefill::reference
