// The layer's ops in order.
#include "model/block.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/contract.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/bias_gelu/bias_gelu.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/residual/residual.hpp"
#include "model/factor.hpp"

namespace pipefill {
namespace {

const StageTensor& tensor(const ParameterStore& store, std::string_view name) {
  const StageTensor* found = store.find(name);
  PF_EXPECT(found != nullptr);
  return *found;
}

template <class Factor>
LinearWeights<Factor> linear_weights(const ParameterStore& store, const std::string& name) {
  const StageTensor& weight = tensor(store, name + ".weight");
  const StageTensor& bias = tensor(store, name + ".bias");
  return {store.factor(weight, Factor{}), bias.values.data(), weight.gradient.data(), bias.gradient.data()};
}

}  // namespace

NormWeights norm_weights(const ParameterStore& store, const std::string& name) {
  const StageTensor& gamma = tensor(store, name + ".weight");
  const StageTensor& beta = tensor(store, name + ".bias");
  return {gamma.values.data(), beta.values.data(), gamma.gradient.data(), beta.gradient.data()};
}

template <class Factor>
LayerWeights<Factor> layer_weights(const ParameterStore& store, int layer) {
  const std::string block = fmt::format("block.{}.", layer);
  return {norm_weights(store, block + "attention_norm"),
          norm_weights(store, block + "mlp_norm"),
          linear_weights<Factor>(store, block + "attention.qkv"),
          linear_weights<Factor>(store, block + "attention.projection"),
          linear_weights<Factor>(store, block + "mlp.expand"),
          linear_weights<Factor>(store, block + "mlp.projection")};
}

Scratch carve_scratch(const ChunkShape& shape, ComputeType compute, Carver& carver) {
  const std::int64_t N = shape.tokens(), C = shape.C;
  return {carver.take<float>(N * C), compute == ComputeType::bf16 ? carver.take<float>(N * 4 * C) : nullptr};
}

template <class Factor>
void block_forward(const KernelContext& ctx, const ChunkShape& shape, const LayerWeights<Factor>& w,
                   LayerActivations<Factor>& a, float* output, const Progress& progress) {
  const std::int64_t N = shape.tokens(), C = shape.C;
  layernorm_forward(ctx, a.attention_norm, a.attention_mean, a.attention_rstd, a.input, w.attention_norm.gamma,
                    w.attention_norm.beta, N, C);
  linear_forward(ctx, a.qkv, a.attention_norm, w.qkv.weight, w.qkv.bias, N, C, 3 * C);
  attention_forward(ctx, a.attention, a.log_sum_exp, a.qkv, shape.B, shape.T, C, shape.H);
  store_factor(ctx, a.attention_factor, a.attention, N * C);
  linear_forward(ctx, a.middle, a.attention_factor, w.projection.weight, nullptr, N, C, C);
  residual_layernorm_forward(ctx, a.middle, a.mlp_norm, a.mlp_mean, a.mlp_rstd, a.input, a.middle, w.projection.bias,
                             w.mlp_norm.gamma, w.mlp_norm.beta, N, C);
  progress();
  linear_forward(ctx, a.expanded, a.mlp_norm, w.expand.weight, nullptr, N, C, 4 * C);
  bias_gelu_forward(ctx, a.gelu, a.expanded, w.expand.bias, N, 4 * C);
  linear_forward(ctx, output, a.gelu, w.contract.weight, nullptr, N, 4 * C, C);
  residual_add(ctx, output, a.middle, output, w.contract.bias, N, C);
  progress();
}

template <class Factor>
void block_backward_input(const KernelContext& ctx, const ChunkShape& shape, const LayerWeights<Factor>& w,
                          const LayerActivations<Factor>& a, LayerGradients<Factor>& g, float* residual,
                          const Scratch& scratch, const Progress& progress) {
  const std::int64_t N = shape.tokens(), C = shape.C;
  store_factor(ctx, g.output, residual, N * C);
  float* expanded = working_memory(g.expanded, scratch.wide);
  linear_backward_input(ctx, expanded, g.output, w.contract.weight, N, 4 * C, C);
  bias_gelu_backward(ctx, expanded, expanded, a.expanded, w.expand.bias, N, 4 * C);
  store_factor(ctx, g.expanded, expanded, N * 4 * C);
  linear_backward_input(ctx, g.mlp_norm, g.expanded, w.expand.weight, N, C, 4 * C);
  layernorm_backward_input(ctx, residual, g.mlp_norm, a.middle, a.mlp_mean, a.mlp_rstd, w.mlp_norm.gamma, N, C,
                           Accumulate::yes);
  progress();
  store_factor(ctx, g.middle, residual, N * C);
  linear_backward_input(ctx, scratch.narrow, g.middle, w.projection.weight, N, C, C);
  float* qkv = working_memory(g.qkv, scratch.wide);
  attention_backward(ctx, qkv, scratch.narrow, a.qkv, a.attention, a.log_sum_exp, shape.B, shape.T, C, shape.H);
  store_factor(ctx, g.qkv, qkv, N * 3 * C);
  linear_backward_input(ctx, g.attention_norm, g.qkv, w.qkv.weight, N, C, 3 * C);
  layernorm_backward_input(ctx, residual, g.attention_norm, a.input, a.attention_mean, a.attention_rstd,
                           w.attention_norm.gamma, N, C, Accumulate::yes);
  progress();
}

template <class Factor>
void block_backward_weight(const KernelContext& ctx, const ChunkShape& shape, const LayerWeights<Factor>& w,
                           const LayerActivations<Factor>& a, const LayerGradients<Factor>& g,
                           const Progress& progress) {
  const std::int64_t N = shape.tokens(), C = shape.C;
  linear_backward_weight(ctx, w.contract.dweight, w.contract.dbias, a.gelu, g.output, N, 4 * C, C);
  linear_backward_weight(ctx, w.expand.dweight, w.expand.dbias, a.mlp_norm, g.expanded, N, C, 4 * C);
  layernorm_backward_weight(ctx, w.mlp_norm.dgamma, w.mlp_norm.dbeta, g.mlp_norm, a.middle, a.mlp_mean, a.mlp_rstd, N,
                            C);
  progress();
  linear_backward_weight(ctx, w.projection.dweight, w.projection.dbias, a.attention_factor, g.middle, N, C, C);
  linear_backward_weight(ctx, w.qkv.dweight, w.qkv.dbias, a.attention_norm, g.qkv, N, C, 3 * C);
  layernorm_backward_weight(ctx, w.attention_norm.dgamma, w.attention_norm.dbeta, g.attention_norm, a.input,
                            a.attention_mean, a.attention_rstd, N, C);
  progress();
}

template LayerWeights<float> layer_weights<float>(const ParameterStore&, int);
template LayerWeights<Bf16> layer_weights<Bf16>(const ParameterStore&, int);
template void block_forward(const KernelContext&, const ChunkShape&, const LayerWeights<float>&,
                            LayerActivations<float>&, float*, const Progress&);
template void block_forward(const KernelContext&, const ChunkShape&, const LayerWeights<Bf16>&, LayerActivations<Bf16>&,
                            float*, const Progress&);
template void block_backward_input(const KernelContext&, const ChunkShape&, const LayerWeights<float>&,
                                   const LayerActivations<float>&, LayerGradients<float>&, float*, const Scratch&,
                                   const Progress&);
template void block_backward_input(const KernelContext&, const ChunkShape&, const LayerWeights<Bf16>&,
                                   const LayerActivations<Bf16>&, LayerGradients<Bf16>&, float*, const Scratch&,
                                   const Progress&);
template void block_backward_weight(const KernelContext&, const ChunkShape&, const LayerWeights<float>&,
                                    const LayerActivations<float>&, const LayerGradients<float>&, const Progress&);
template void block_backward_weight(const KernelContext&, const ChunkShape&, const LayerWeights<Bf16>&,
                                    const LayerActivations<Bf16>&, const LayerGradients<Bf16>&, const Progress&);

}  // namespace pipefill
