// FLOPs by formula, bytes by the very layout functions that Stage allocates with.
#include "model/cost.hpp"

#include <array>

#include "model/activation_stash.hpp"
#include "model/block.hpp"
#include "model/parameter_store.hpp"
#include "model/parameters.hpp"

namespace pipefill {
namespace {

template <class Factor>
void add_activations(const ModelShape& shape, const ChunkShape& chunk, ChunkMemory& memory) {
  Carver activations, deferred, scratch;
  carve_activations<Factor>(chunk, activations);
  carve_gradients<Factor>(chunk, deferred);
  carve_shared_gradients<Factor>(chunk, scratch);
  carve_scratch(chunk, shape.compute, scratch);
  memory.activations = activations.taken();
  memory.deferred_gradients = deferred.taken();
  memory.scratch = scratch.taken();
  if (chunk.last) memory.logits = Bytes{chunk.tokens() * chunk.logit_stride * 4};
}

}  // namespace

double layer_training_flops_per_token(const ModelShape& shape) {
  const double C = shape.channels, T = shape.context;
  return 6 * 12 * C * C + 12 * T * C;
}

double training_flops_per_token(const ModelShape& shape) {
  return shape.layers * layer_training_flops_per_token(shape) + 6.0 * shape.vocab * shape.channels;
}

double training_flops_per_token(const ModelShape& shape, const LayerCut& cut, ModelChunkId chunk) {
  double flops = cut[chunk].count * layer_training_flops_per_token(shape);
  if (chunk == cut.first()) flops += 4.0 * shape.channels;
  if (chunk == cut.last()) flops += 6.0 * shape.vocab * shape.channels;
  return flops;
}

ChunkMemory chunk_memory(const ModelShape& shape, const LayerCut& cut, ModelChunkId chunk, int microbatch_size) {
  const std::array held{chunk};
  const bool bf16 = shape.compute == ComputeType::bf16;
  ChunkMemory memory;
  Carver flat, copies, tied;
  for (const TensorSpec& tensor : parameter_table(shape, cut)) {
    if (!tensor.on(chunk)) continue;
    flat.take<float>(tensor.elements());
    if (bf16 && is_product_weight(tensor, cut, held)) copies.take<Bf16>(tensor.elements());
    if (tensor.tied_chunk && cut.size() == 1) tied.take<float>(tensor.elements());
  }
  memory.parameters = flat.taken();
  memory.gradients = flat.taken() + tied.taken();
  memory.compute_copies = copies.taken();
  memory.moments = flat.taken() * 2;
  const ChunkShape sizes(shape, cut, chunk, microbatch_size);
  bf16 ? add_activations<Bf16>(shape, sizes, memory) : add_activations<float>(shape, sizes, memory);
  return memory;
}

}  // namespace pipefill
