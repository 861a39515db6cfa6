// Plain AdamW in double: the oracle of the fast one.
#include <cmath>

#include "kernels/adamw/adamw.hpp"

namespace pipefill::reference {

void adamw_update(float* master, float* m, float* v, const float* gradient, std::int64_t n, const AdamwStep& s) {
  const auto step = static_cast<double>(s.step);
  const double correction1 = 1.0 - std::pow(static_cast<double>(s.beta1), step);
  const double correction2 = 1.0 - std::pow(static_cast<double>(s.beta2), step);
  for (std::int64_t i = 0; i < n; ++i) {
    const double g = static_cast<double>(gradient[i]) * s.gradient_scale;
    const double new_m = s.beta1 * static_cast<double>(m[i]) + (1.0 - s.beta1) * g;
    const double new_v = s.beta2 * static_cast<double>(v[i]) + (1.0 - s.beta2) * g * g;
    const double update = new_m / correction1 / (std::sqrt(new_v / correction2) + s.epsilon);
    m[i] = static_cast<float>(new_m);
    v[i] = static_cast<float>(new_v);
    master[i] =
        static_cast<float>(master[i] - s.learning_rate * (update + s.weight_decay * static_cast<double>(master[i])));
  }
}

}  // namespace pipefill::reference
