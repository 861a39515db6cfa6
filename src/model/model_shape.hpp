// The transformer's shape: GPT-2's form (pre-LayerNorm, learned positions, GELU tanh) with any sizes.
#pragma once

#include <cstdint>

namespace pipefill {

/// Type of the matrix products' factors. Accumulation, the residual stream and the master weights are fp32 always.
enum class ComputeType { fp32, bf16 };

/// Letters as in docs and kernels: L layers, C channels, H heads, T context, V vocab.
struct ModelShape {
  int layers = 0;
  int channels = 0;
  int heads = 0;
  int context = 0;
  int vocab = 0;
  bool tied = true;  ///< the head's weight is the token embedding
  ComputeType compute = ComputeType::fp32;

  /// Row stride of the logits in memory: V rounded up to 16 floats, so that rows are 64-byte aligned. The padding is
  /// of the logits alone: no parameter has a padded row, no padded logit enters the softmax.
  std::int64_t logit_stride() const { return (static_cast<std::int64_t>(vocab) + 15) / 16 * 16; }
  bool operator==(const ModelShape&) const = default;
};

/// Throws DeckError, with the numbers, for sizes that are no model (not positive, channels not a multiple of heads).
void check_shape(const ModelShape& shape);

}  // namespace pipefill
