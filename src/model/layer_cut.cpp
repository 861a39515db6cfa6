// The layer cut: by cost, or as the deck lists it.
#include "model/layer_cut.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "model/cost.hpp"

namespace pipefill {
namespace {

LayerCut from_counts(std::span<const int> counts) {
  LayerCut cut;
  int first = 0;
  for (int count : counts) {
    cut.chunks.push_back({first, count});
    first += count;
  }
  return cut;
}

void check_chunks(int chunks) {
  if (chunks < 1) throw DeckError(fmt::format("a model cannot be cut into {} chunks", chunks));
}

}  // namespace

LayerCut cut_layers_by_cost(const ModelShape& shape, int chunks) {
  check_chunks(chunks);
  if (chunks > shape.layers + 2) {
    throw DeckError(
        fmt::format("{} stages (times chunks per stage) are too many for {} layers: only {} could hold anything "
                    "(layers, embedding, "
                    "head). Use fewer stages, or list parallel.layers to leave some empty on purpose.",
                    chunks, shape.layers, shape.layers + 2));
  }
  // All layers cost the same, so giving each in turn to the chunk that stays cheapest minimises the dearest chunk.
  std::vector<int> counts(static_cast<std::size_t>(chunks), 0);
  const LayerCut empty = from_counts(counts);
  std::vector<double> costs;
  for (int c = 0; c < chunks; ++c) costs.push_back(training_flops_per_token(shape, empty, ModelChunkId{c}));
  const double layer = layer_training_flops_per_token(shape);
  for (int l = 0; l < shape.layers; ++l) {
    std::size_t cheapest = 0;
    for (std::size_t c = 1; c < costs.size(); ++c)
      if (costs[c] <= costs[cheapest]) cheapest = c;
    costs[cheapest] += layer;
    ++counts[cheapest];
  }
  return from_counts(counts);
}

LayerCut cut_layers_explicitly(const ModelShape& shape, int chunks, std::span<const int> layers_per_chunk) {
  check_chunks(chunks);
  if (static_cast<int>(layers_per_chunk.size()) != chunks) {
    throw DeckError(fmt::format("parallel.layers has {} entries [{}] for {} stages (times chunks per stage): one each",
                                layers_per_chunk.size(), fmt::join(layers_per_chunk, ", "), chunks));
  }
  std::int64_t sum = 0;
  for (int count : layers_per_chunk) {
    if (count < 0) throw DeckError(fmt::format("parallel.layers has a negative entry: {}", count));
    sum += count;
  }
  if (sum != shape.layers) {
    throw DeckError(fmt::format("parallel.layers [{}] adds up to {} layers, but model.layers is {}",
                                fmt::join(layers_per_chunk, ", "), sum, shape.layers));
  }
  return from_counts(layers_per_chunk);
}

}  // namespace pipefill
