// Attention over a cache, in double.
#include <cmath>
#include <vector>

#include "kernels/attention_step/attention_step.hpp"

namespace pipefill::reference {

void attention_step(float* out, const float* qkv, const float* keys, const float* values, std::int64_t B,
                    std::int64_t S, std::int64_t t, std::int64_t C, std::int64_t H) {
  const std::int64_t D = C / H;
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t h = 0; h < H; ++h) {
      std::vector<double> weight(static_cast<std::size_t>(t + 1));
      double sum = 0;
      for (std::int64_t s = 0; s <= t; ++s) {
        double score = 0;
        for (std::int64_t d = 0; d < D; ++d)
          score += static_cast<double>(qkv[b * 3 * C + h * D + d]) * keys[(b * S + s) * C + h * D + d];
        sum += weight[static_cast<std::size_t>(s)] = std::exp(score / std::sqrt(static_cast<double>(D)));
      }
      for (std::int64_t d = 0; d < D; ++d) {
        double mixed = 0;
        for (std::int64_t s = 0; s <= t; ++s)
          mixed += weight[static_cast<std::size_t>(s)] / sum * values[(b * S + s) * C + h * D + d];
        out[b * C + h * D + d] = static_cast<float>(mixed);
      }
    }
  }
}

}  // namespace pipefill::reference
