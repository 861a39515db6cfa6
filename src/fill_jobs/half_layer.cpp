// The kernels of each half, in order.
#include "fill_jobs/half_layer.hpp"

#include "kernels/attention/attention.hpp"
#include "kernels/bias_gelu/bias_gelu.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/residual/residual.hpp"

namespace pipefill {

AttentionActivations AttentionActivations::carve(Carver& carver, const ModelShape& shape, std::int64_t rows) {
  const std::int64_t C = shape.channels;
  AttentionActivations a{};
  a.norm = carver.take<float>(rows * C);
  a.mean = carver.take<float>(rows);
  a.rstd = carver.take<float>(rows);
  a.qkv = carver.take<float>(rows * 3 * C);
  a.mixed = carver.take<float>(rows * C);
  a.log_sum_exp = carver.take<float>(rows * shape.heads);
  return a;
}

AttentionActivations AttentionActivations::from(const ModelShape& shape, std::int64_t row) const {
  const std::int64_t C = shape.channels;
  return {norm + row * C, mean + row, rstd + row, qkv + row * 3 * C, mixed + row * C, log_sum_exp + row * shape.heads};
}

MlpActivations MlpActivations::carve(Carver& carver, const ModelShape& shape, std::int64_t rows) {
  const std::int64_t C = shape.channels;
  MlpActivations a{};
  a.norm = carver.take<float>(rows * C);
  a.mean = carver.take<float>(rows);
  a.rstd = carver.take<float>(rows);
  a.expanded = carver.take<float>(rows * 4 * C);
  a.gelu = carver.take<float>(rows * 4 * C);
  return a;
}

MlpActivations MlpActivations::from(const ModelShape& shape, std::int64_t row) const {
  const std::int64_t C = shape.channels;
  return {norm + row * C, mean + row, rstd + row, expanded + row * 4 * C, gelu + row * 4 * C};
}

void attention_half(const KernelContext& ctx, const ModelShape& shape, const float* parameters,
                    const LayerOffsets& layer, const AttentionActivations& a, float* out, const float* in,
                    std::int64_t B, std::int64_t T) {
  const std::int64_t N = B * T, C = shape.channels;
  const float* p = parameters;
  layernorm_forward(ctx, a.norm, a.mean, a.rstd, in, p + layer.attention_norm.weight, p + layer.attention_norm.bias, N,
                    C);
  linear_forward(ctx, a.qkv, a.norm, p + layer.qkv.weight, p + layer.qkv.bias, N, C, 3 * C);
  attention_forward(ctx, a.mixed, a.log_sum_exp, a.qkv, B, T, C, shape.heads);
  linear_forward(ctx, out, a.mixed, p + layer.projection.weight, nullptr, N, C, C);
  residual_add(ctx, out, in, out, p + layer.projection.bias, N, C);
}

void mlp_half(const KernelContext& ctx, const ModelShape& shape, const float* parameters, const LayerOffsets& layer,
              const MlpActivations& a, float* out, const float* in, std::int64_t N) {
  const std::int64_t C = shape.channels;
  const float* p = parameters;
  layernorm_forward(ctx, a.norm, a.mean, a.rstd, in, p + layer.mlp_norm.weight, p + layer.mlp_norm.bias, N, C);
  linear_forward(ctx, a.expanded, a.norm, p + layer.expand.weight, nullptr, N, C, 4 * C);
  bias_gelu_forward(ctx, a.gelu, a.expanded, p + layer.expand.bias, N, 4 * C);
  linear_forward(ctx, out, a.gelu, p + layer.contract.weight, nullptr, N, 4 * C, C);
  residual_add(ctx, out, in, out, p + layer.contract.bias, N, C);
}

}  // namespace pipefill
