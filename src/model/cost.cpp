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

std::vector<ChunkMemory> chunk_memories(const ModelShape& shape, const LayerCut& cut, int microbatch_size) {
  struct Tensors {
    Carver flat, copies, tied;
  };
  const bool bf16 = shape.compute == ComputeType::bf16;
  std::vector<Tensors> tensors(static_cast<std::size_t>(cut.size()));
  const auto add = [&](const TensorSpec& tensor, ModelChunkId chunk) {
    Tensors& mine = tensors[static_cast<std::size_t>(chunk.value)];
    mine.flat.take<float>(tensor.elements());
    if (bf16 && is_product_weight(tensor, cut, std::array{chunk})) mine.copies.take<Bf16>(tensor.elements());
    if (tensor.tied_chunk && cut.size() == 1) mine.tied.take<float>(tensor.elements());
  };
  for (const TensorSpec& tensor : parameter_table(shape, cut)) {
    add(tensor, tensor.chunk);
    if (tensor.tied_chunk && *tensor.tied_chunk != tensor.chunk) add(tensor, *tensor.tied_chunk);
  }
  std::vector<ChunkMemory> memories;
  for (int chunk = 0; chunk < cut.size(); ++chunk) {
    const Tensors& mine = tensors[static_cast<std::size_t>(chunk)];
    ChunkMemory& memory = memories.emplace_back();
    memory.parameters = mine.flat.taken();
    memory.gradients = mine.flat.taken() + mine.tied.taken();
    memory.compute_copies = mine.copies.taken();
    memory.moments = mine.flat.taken() * 2;
    const ChunkShape sizes(shape, cut, {chunk}, microbatch_size);
    bf16 ? add_activations<Bf16>(shape, sizes, memory) : add_activations<float>(shape, sizes, memory);
  }
  return memories;
}

}  // namespace pipefill
