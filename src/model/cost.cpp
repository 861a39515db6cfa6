// FLOPs by formula, bytes by the very layout functions that Stage allocates with.
#include "model/cost.hpp"

#include <algorithm>
#include <array>

#include "model/activation_stash.hpp"
#include "model/block.hpp"
#include "model/parameter_store.hpp"
#include "model/parameters.hpp"
#include "model/row_blocks.hpp"

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

/// Whole blocks of rows have one owner, so the shares are not equal.
Bytes largest_moments(const std::vector<const TensorSpec*>& tensors, int shards) {
  Bytes largest{};
  for (int replica = 0; replica < shards; ++replica) {
    Carver moments;
    for (const TensorSpec* tensor : tensors) {
      const std::int64_t elements = owned_rows(*tensor, {replica}, shards).count * tensor->columns();
      moments.take<float>(elements);
      moments.take<float>(elements);
    }
    largest = std::max(largest, moments.taken());
  }
  return largest;
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

std::vector<ChunkMemory> chunk_memories(const ModelShape& shape, const LayerCut& cut, int microbatch_size, int shards) {
  const bool bf16 = shape.compute == ComputeType::bf16;
  const ParameterTable table = parameter_table(shape, cut);
  std::vector<std::vector<const TensorSpec*>> tensors(static_cast<std::size_t>(cut.size()));
  for (const TensorSpec& tensor : table) {
    tensors[static_cast<std::size_t>(tensor.chunk.value)].push_back(&tensor);
    if (tensor.tied_chunk && *tensor.tied_chunk != tensor.chunk)
      tensors[static_cast<std::size_t>(tensor.tied_chunk->value)].push_back(&tensor);
  }
  std::vector<ChunkMemory> memories;
  for (int chunk = 0; chunk < cut.size(); ++chunk) {
    const std::array held{ModelChunkId{chunk}};
    const std::vector<const TensorSpec*>& mine = tensors[static_cast<std::size_t>(chunk)];
    Carver flat, copies, tied;
    for (const TensorSpec* tensor : mine) {
      flat.take<float>(tensor->elements());
      if (bf16 && is_product_weight(*tensor, cut, held)) copies.take<Bf16>(tensor->elements());
      if (tensor->tied_chunk && cut.size() == 1) tied.take<float>(tensor->elements());
    }
    ChunkMemory& memory = memories.emplace_back();
    memory.parameters = flat.taken();
    memory.gradients = flat.taken() + tied.taken();
    memory.compute_copies = copies.taken();
    memory.moments = largest_moments(mine, shards);
    const ChunkShape sizes(shape, cut, {chunk}, microbatch_size);
    bf16 ? add_activations<Bf16>(shape, sizes, memory) : add_activations<float>(shape, sizes, memory);
  }
  return memories;
}

}  // namespace pipefill
