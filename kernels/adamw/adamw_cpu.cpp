// AdamW on the CPU: one pass, seven memory streams; bound by memory.
#include <cmath>

#include "kernels/adamw/adamw.hpp"
#include "kernels/parallel.hpp"

namespace pipefill {

namespace {

struct Factors {
  float beta1, rest1, beta2, rest2, gradient_scale, rate, epsilon, keep, inverse_root2;
};

void update(float* __restrict master, float* __restrict m, float* __restrict v, const float* __restrict gradient,
            std::int64_t begin, std::int64_t end, const Factors f) {
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    const float new_m = f.beta1 * m[i] + f.rest1 * g;
    const float new_v = f.beta2 * v[i] + f.rest2 * (g * g);
    const float root = std::sqrt(new_v) * f.inverse_root2 + f.epsilon;
    m[i] = new_m;
    v[i] = new_v;
    master[i] = f.keep * master[i] - f.rate * (new_m / root);
  }
}

}  // namespace

void adamw_update(const KernelContext& ctx, float* master, float* m, float* v, const float* gradient, std::int64_t n,
                  const AdamwStep& s) {
  const auto step = static_cast<double>(s.step);
  const double correction1 = 1.0 - std::pow(static_cast<double>(s.beta1), step);
  const double correction2 = 1.0 - std::pow(static_cast<double>(s.beta2), step);
  const Factors f{.beta1 = s.beta1,
                  .rest1 = static_cast<float>(1.0 - static_cast<double>(s.beta1)),
                  .beta2 = s.beta2,
                  .rest2 = static_cast<float>(1.0 - static_cast<double>(s.beta2)),
                  .gradient_scale = s.gradient_scale,
                  .rate = static_cast<float>(s.learning_rate / correction1),
                  .epsilon = s.epsilon,
                  .keep = static_cast<float>(1.0 - static_cast<double>(s.learning_rate) * s.weight_decay),
                  .inverse_root2 = static_cast<float>(1.0 / std::sqrt(correction2))};
  parallel_parts(ctx, n, 1024, 4,
                 [=](std::int64_t begin, std::int64_t end) { update(master, m, v, gradient, begin, end, f); });
}

}  // namespace pipefill
