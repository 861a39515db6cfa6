// One transformer layer: x + attention(norm(x)), then x + mlp(norm(x)) (GPT-2: pre-LayerNorm), as forward, input part
// of the backward (I) and weight part (W). The calls, and so the bits, do not depend on who calls them when.
#pragma once

#include "kernels/context.hpp"
#include "model/activation_stash.hpp"
#include "model/parameter_store.hpp"
#include "model/stage.hpp"

namespace pipefill {

struct NormWeights {
  const float *gamma, *beta;
  float *dgamma, *dbeta;
};
template <class Factor>
struct LinearWeights {
  const Factor* weight;
  const float* bias;
  float *dweight, *dbias;
};
template <class Factor>
struct LayerWeights {
  NormWeights attention_norm, mlp_norm;
  LinearWeights<Factor> qkv, projection, expand, contract;
};

template <class Factor>
LayerWeights<Factor> layer_weights(const ParameterStore& store, int layer);
NormWeights norm_weights(const ParameterStore& store, const std::string& name);

/// Memory that no microbatch keeps; one per stage.
struct Scratch {
  float* narrow;  ///< (N,C)
  float* wide;    ///< (N,4C); bf16 only: gradients before they are rounded
};
Scratch carve_scratch(const ChunkShape& shape, ComputeType compute, Carver& carver);

/// Reads a.input (N,C), fills the rest of `a`, writes output (N,C).
template <class Factor>
void block_forward(const KernelContext& ctx, const ChunkShape& shape, const LayerWeights<Factor>& w,
                   LayerActivations<Factor>& a, float* output, const Progress& progress);

/// `residual` (N,C): gradient of the layer's output in, of its input out. Fills `g`.
template <class Factor>
void block_backward_input(const KernelContext& ctx, const ChunkShape& shape, const LayerWeights<Factor>& w,
                          const LayerActivations<Factor>& a, LayerGradients<Factor>& g, float* residual,
                          const Scratch& scratch, const Progress& progress);

/// Adds this microbatch's part to the gradients of the layer's weights.
template <class Factor>
void block_backward_weight(const KernelContext& ctx, const ChunkShape& shape, const LayerWeights<Factor>& w,
                           const LayerActivations<Factor>& a, const LayerGradients<Factor>& g,
                           const Progress& progress);

}  // namespace pipefill
