// What the model costs, in FLOPs and bytes: for the layer cut, for `plan`, and for the model FLOP rate.
#pragma once

#include <vector>

#include "base/id.hpp"
#include "base/units.hpp"
#include "model/layer_cut.hpp"
#include "model/model_shape.hpp"

namespace pipefill {

/// Training FLOPs of one token, forward and backward (two per multiply-add; recomputation never counts):
///   6 (12 L C^2 + V C) + 12 L T C
/// attention counted in full, not halved for causality; look-ups, norms and activations free (PaLM, appendix B).
double training_flops_per_token(const ModelShape& shape);
inline constexpr const char* kTrainingFlopsFormula =
    "6 (12 L C^2 + V C) + 12 L T C per token, attention counted in full";

/// Of one layer: 6 * 12 C^2 + 12 T C.
double layer_training_flops_per_token(const ModelShape& shape);

/// The same for one chunk, the embedding's additions counted as 4 C so that it is not free for the layer cut.
double training_flops_per_token(const ModelShape& shape, const LayerCut& cut, ModelChunkId chunk);

/// Bytes of one held chunk, as Stage allocates them.
struct ChunkMemory {
  Bytes parameters{};          ///< fp32 masters
  Bytes gradients{};           ///< fp32 accumulators, two of a tied embedding whose ends are one chunk
  Bytes compute_copies{};      ///< bf16 weights
  Bytes moments{};             ///< AdamW's, of the replica that owns most rows
  Bytes activations{};         ///< stash of one microbatch in flight, with logits
  Bytes logits{};              ///< the logits' part of `activations`
  Bytes deferred_gradients{};  ///< one microbatch between BackwardInput and BackwardWeight
  Bytes scratch{};             ///< whatever is in flight
  /// All of it with `slots` microbatches in flight, `weight_slots` of them awaiting their weight part.
  Bytes total(int slots, int weight_slots) const {
    return parameters + gradients + compute_copies + moments + scratch + activations * slots +
           deferred_gradients * weight_slots;
  }
};
/// By chunk. `shards`: replicas that share the optimizer's state (ZeRO-1); 1: each owns all rows.
std::vector<ChunkMemory> chunk_memories(const ModelShape& shape, const LayerCut& cut, int microbatch_size,
                                        int shards = 1);

}  // namespace pipefill
