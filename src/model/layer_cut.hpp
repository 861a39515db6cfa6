// Which layers each chunk of the pipeline holds. Chunk 0 also holds the embeddings, the last one the final layer norm
// and the head; a chunk may hold no layer at all.
#pragma once

#include <span>
#include <vector>

#include "base/id.hpp"
#include "model/model_shape.hpp"

namespace pipefill {

struct LayerRange {
  int first = 0;
  int count = 0;
  bool operator==(const LayerRange&) const = default;
};

struct LayerCut {
  std::vector<LayerRange> chunks;  ///< per model chunk, contiguous and ascending, together all layers

  int size() const { return static_cast<int>(chunks.size()); }
  ModelChunkId first() const { return {0}; }
  ModelChunkId last() const { return {size() - 1}; }
  const LayerRange& operator[](ModelChunkId chunk) const { return chunks[static_cast<std::size_t>(chunk.value)]; }
  bool operator==(const LayerCut&) const = default;
};

/// Cut by cost (model/cost.hpp: FLOPs of blocks, embedding and logits) so that the slowest chunk is as fast as can be;
/// equal choices put the layer on the later chunk (earlier ones keep more activations). Throws DeckError for more
/// chunks than layers + 2: some would hold nothing at all.
LayerCut cut_layers_by_cost(const ModelShape& shape, int chunks);

/// Explicit layers per chunk. Throws DeckError, with the numbers, when there are not `chunks` entries, one is negative,
/// or they do not add up to the model's layers.
LayerCut cut_layers_explicitly(const ModelShape& shape, int chunks, std::span<const int> layers_per_chunk);

}  // namespace pipefill
