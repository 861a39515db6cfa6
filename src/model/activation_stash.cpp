// Layouts of the stash, and its slots.
#include "model/activation_stash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "base/error.hpp"

namespace pipefill {

ChunkShape::ChunkShape(const ModelShape& shape, const LayerCut& cut, ModelChunkId chunk, int microbatch_size)
    : B(microbatch_size),
      T(shape.context),
      C(shape.channels),
      H(shape.heads),
      V(shape.vocab),
      logit_stride(shape.logit_stride()),
      layers(cut[chunk].count),
      first(chunk == cut.first()),
      last(chunk == cut.last()) {}

template <class Factor>
ChunkActivations<Factor> carve_activations(const ChunkShape& shape, Carver& carver) {
  const std::int64_t N = shape.tokens(), C = shape.C;
  ChunkActivations<Factor> chunk;
  if (shape.first) chunk.inputs = carver.take<std::int32_t>(N);
  for (int l = 0; l < shape.layers; ++l) {
    LayerActivations<Factor> layer{};
    layer.input = carver.take<float>(N * C);
    layer.attention_norm = carver.take<Factor>(N * C);
    layer.attention_mean = carver.take<float>(N);
    layer.attention_rstd = carver.take<float>(N);
    layer.qkv = carver.take<float>(N * 3 * C);
    layer.attention = carver.take<float>(N * C);
    if constexpr (std::is_same_v<Factor, float>) {
      layer.attention_factor = layer.attention;
    } else {
      layer.attention_factor = carver.take<Factor>(N * C);
    }
    layer.log_sum_exp = carver.take<float>(N * shape.H);
    layer.middle = carver.take<float>(N * C);
    layer.mlp_norm = carver.take<Factor>(N * C);
    layer.mlp_mean = carver.take<float>(N);
    layer.mlp_rstd = carver.take<float>(N);
    layer.expanded = carver.take<float>(N * 4 * C);
    layer.gelu = carver.take<Factor>(N * 4 * C);
    chunk.layers.push_back(layer);
  }
  if (shape.last) {
    chunk.targets = carver.take<std::int32_t>(N);
    chunk.input = carver.take<float>(N * C);
    chunk.norm = carver.take<Factor>(N * C);
    chunk.mean = carver.take<float>(N);
    chunk.rstd = carver.take<float>(N);
    chunk.logits = carver.take<float>(N * shape.logit_stride);
    chunk.losses = carver.take<float>(N);
  }
  return chunk;
}

namespace {

template <class Factor>
LayerGradients<Factor> carve_layer_gradients(const ChunkShape& shape, Carver& carver) {
  const std::int64_t N = shape.tokens(), C = shape.C;
  LayerGradients<Factor> layer{};
  layer.output = carver.take<Factor>(N * C);
  layer.expanded = carver.take<Factor>(N * 4 * C);
  layer.mlp_norm = carver.take<float>(N * C);
  layer.middle = carver.take<Factor>(N * C);
  layer.qkv = carver.take<Factor>(N * 3 * C);
  layer.attention_norm = carver.take<float>(N * C);
  return layer;
}

template <class Factor>
void carve_end_gradients(const ChunkShape& shape, Carver& carver, ChunkGradients<Factor>& chunk) {
  if (shape.first) chunk.embedding = carver.take<float>(shape.tokens() * shape.C);
  if (shape.last) chunk.norm = carver.take<float>(shape.tokens() * shape.C);
}

}  // namespace

template <class Factor>
ChunkGradients<Factor> carve_gradients(const ChunkShape& shape, Carver& carver) {
  ChunkGradients<Factor> chunk;
  for (int l = 0; l < shape.layers; ++l) chunk.layers.push_back(carve_layer_gradients<Factor>(shape, carver));
  carve_end_gradients(shape, carver, chunk);
  return chunk;
}

template <class Factor>
ChunkGradients<Factor> carve_shared_gradients(const ChunkShape& shape, Carver& carver) {
  ChunkGradients<Factor> chunk;
  if (shape.layers > 0)
    chunk.layers.assign(static_cast<std::size_t>(shape.layers), carve_layer_gradients<Factor>(shape, carver));
  carve_end_gradients(shape, carver, chunk);
  return chunk;
}

template ChunkActivations<float> carve_activations<float>(const ChunkShape&, Carver&);
template ChunkActivations<Bf16> carve_activations<Bf16>(const ChunkShape&, Carver&);
template ChunkGradients<float> carve_gradients<float>(const ChunkShape&, Carver&);
template ChunkGradients<Bf16> carve_gradients<Bf16>(const ChunkShape&, Carver&);
template ChunkGradients<float> carve_shared_gradients<float>(const ChunkShape&, Carver&);
template ChunkGradients<Bf16> carve_shared_gradients<Bf16>(const ChunkShape&, Carver&);

int Slots::in_use() const {
  return static_cast<int>(std::count_if(held_.begin(), held_.end(), [](const auto& m) { return m.has_value(); }));
}

std::size_t Slots::acquire(MicrobatchId microbatch) {
  std::size_t free = held_.size();
  for (std::size_t slot = held_.size(); slot-- > 0;) {
    if (!held_[slot]) free = slot;
    if (held_[slot] == microbatch)
      throw Error(ExitCode::bug, fmt::format("microbatch {} is in flight already", microbatch.value));
  }
  if (free == held_.size()) {
    throw Error(ExitCode::bug, fmt::format("microbatch {} would be one more in flight than the {} slots of this stash",
                                           microbatch.value, held_.size()));
  }
  held_[free] = microbatch;
  return free;
}

std::size_t Slots::find(MicrobatchId microbatch) const {
  const auto it = std::find(held_.begin(), held_.end(), microbatch);
  if (it == held_.end()) throw Error(ExitCode::bug, fmt::format("microbatch {} is not in flight", microbatch.value));
  return static_cast<std::size_t>(it - held_.begin());
}

}  // namespace pipefill
