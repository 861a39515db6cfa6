// One AdamW update (Loshchilov & Hutter 2019, algorithm 2) of a span of parameters, in one pass over memory.
#pragma once

#include <cstdint>

#include "kernels/context.hpp"

namespace pipefill {

struct AdamwStep {
  float learning_rate = 0;
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;
  float weight_decay = 0;    ///< 0 for biases and layer norms
  float gradient_scale = 1;  ///< clipping: the gradient counts times this
  std::int64_t step = 1;     ///< this update's number, from 1 (bias correction)
};

/// m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g^2; master -= lr (m^ / (sqrt(v^) + epsilon) + weight_decay
/// master). Every element on its own: the bits do not depend on how a tensor is cut or on the thread count.
void adamw_update(const KernelContext& ctx, float* master /* (n) */, float* m /* (n) */, float* v /* (n) */,
                  const float* gradient /* (n) */, std::int64_t n, const AdamwStep& step);

namespace reference {
void adamw_update(float* master, float* m, float* v, const float* gradient, std::int64_t n, const AdamwStep& step);
}  // namespace reference

}  // namespace pipefill
