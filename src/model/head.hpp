// The model's end: final norm, logits, loss. The logits' products run in pieces of the vocabulary, so that messages
// progress in between, and the logits become their own gradient in the forward already: nothing else needs them.
#pragma once

#include "model/block.hpp"

namespace pipefill {

template <class Factor>
struct HeadWeights {
  NormWeights norm;
  const Factor* weight;  ///< (V,C)
  float* dweight;        ///< (V,C)
};

template <class Factor>
HeadWeights<Factor> head_weights(const ParameterStore& store);

/// Reads a.input and a.targets; leaves the logits' gradient times `gradient_scale` in a.logits. Returns the sum of the
/// token losses, added in token order in double.
template <class Factor>
double head_forward(const KernelContext& ctx, const ChunkShape& shape, const HeadWeights<Factor>& w,
                    ChunkActivations<Factor>& a, float gradient_scale, const Progress& progress);

/// Writes the gradient of a.input to residual (N,C), that of the norm's output to g.norm.
template <class Factor>
void head_backward_input(const KernelContext& ctx, const ChunkShape& shape, const HeadWeights<Factor>& w,
                         const ChunkActivations<Factor>& a, ChunkGradients<Factor>& g, float* residual,
                         const Progress& progress);

/// `accumulate` no: the first microbatch of a step overwrites the weight's gradient (the norm's always adds).
template <class Factor>
void head_backward_weight(const KernelContext& ctx, const ChunkShape& shape, const HeadWeights<Factor>& w,
                          const ChunkActivations<Factor>& a, const ChunkGradients<Factor>& g, Accumulate accumulate,
                          const Progress& progress);

}  // namespace pipefill
