// What a chunk keeps of a microbatch between its forward and its backward, and between the two parts of the backward;
// and the slots in which microbatches in flight keep it. `Factor` is the type of matrix products' factors: float or
// Bf16. N = B T tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/id.hpp"
#include "kernels/bf16.hpp"
#include "model/carver.hpp"
#include "model/layer_cut.hpp"
#include "model/model_shape.hpp"

namespace pipefill {

/// Sizes that every piece of a chunk's work needs.
struct ChunkShape {
  std::int64_t B, T, C, H, V, logit_stride;
  int layers = 0;
  bool first = false;  ///< holds the embeddings
  bool last = false;   ///< holds the final norm and the head

  ChunkShape(const ModelShape& shape, const LayerCut& cut, ModelChunkId chunk, int microbatch_size);
  std::int64_t tokens() const { return B * T; }
};

template <class Factor>
struct LayerActivations {
  float* input;                            ///< (N,C) residual stream
  Factor* attention_norm;                  ///< (N,C)
  float *attention_mean, *attention_rstd;  ///< (N)
  float* qkv;                              ///< (N,3C)
  float* attention;                        ///< (N,C)
  Factor* attention_factor;                ///< (N,C); the same memory as `attention` in fp32
  float* log_sum_exp;                      ///< (B,H,T)
  float* middle;                           ///< (N,C) residual stream after attention
  Factor* mlp_norm;                        ///< (N,C)
  float *mlp_mean, *mlp_rstd;              ///< (N)
  float* expanded;                         ///< (N,4C) before bias and GELU
  Factor* gelu;                            ///< (N,4C)
};

template <class Factor>
struct ChunkActivations {
  std::int32_t* inputs = nullptr;  ///< (N) first chunk
  std::vector<LayerActivations<Factor>> layers;
  std::int32_t* targets = nullptr;         ///< (N) last chunk, as all below
  float* input = nullptr;                  ///< (N,C) of the final norm
  Factor* norm = nullptr;                  ///< (N,C)
  float *mean = nullptr, *rstd = nullptr;  ///< (N)
  float* logits = nullptr;                 ///< (N, logit_stride); holds the gradient once the loss is known
  float* losses = nullptr;                 ///< (N)
};

/// Gradients of a layer's intermediate values that its weight part needs.
template <class Factor>
struct LayerGradients {
  Factor* output;         ///< (N,C) of the residual stream behind the layer
  Factor* expanded;       ///< (N,4C)
  float* mlp_norm;        ///< (N,C)
  Factor* middle;         ///< (N,C)
  Factor* qkv;            ///< (N,3C)
  float* attention_norm;  ///< (N,C)
};

template <class Factor>
struct ChunkGradients {
  std::vector<LayerGradients<Factor>> layers;
  float* embedding = nullptr;  ///< (N,C) first chunk: of the embeddings' sum
  float* norm = nullptr;       ///< (N,C) last chunk: of the final norm's output
};

template <class Factor>
ChunkActivations<Factor> carve_activations(const ChunkShape& shape, Carver& carver);
template <class Factor>
ChunkGradients<Factor> carve_gradients(const ChunkShape& shape, Carver& carver);
/// For a backward that does each layer's weight part at once: all layers share one layer's memory.
template <class Factor>
ChunkGradients<Factor> carve_shared_gradients(const ChunkShape& shape, Carver& carver);

/// Which of a fixed number of slots a microbatch occupies.
class Slots {
 public:
  explicit Slots(int count) : held_(static_cast<std::size_t>(count)) {}

  int count() const { return static_cast<int>(held_.size()); }
  int in_use() const;
  /// Both throw an Error that names the caller's mistake: no slot free, or none held.
  std::size_t acquire(MicrobatchId microbatch);
  std::size_t find(MicrobatchId microbatch) const;
  void release(std::size_t slot) { held_[slot].reset(); }

 private:
  std::vector<std::optional<MicrobatchId>> held_;
};

}  // namespace pipefill
