// One training step of a fill job cut into chunks: forward and backward of every microbatch, then norm and update.
#pragma once

#include <cstdint>
#include <vector>

#include "fill_jobs/parameter_layout.hpp"
#include "fill_jobs/piece.hpp"

namespace pipefill {

/// What a piece does, and what its range counts.
enum class TrainPart {
  embedding,        ///< reads the microbatch; all of it
  attention,        ///< forward; sequences
  mlp,              ///< forward; rows
  head,             ///< norm, logits, loss, and the backward to the residual stream; rows
  head_weight,      ///< rows of the weight
  mlp_input,        ///< backward to the residual stream between the halves; rows
  contract,         ///< weight gradient; rows of the weight, as in the three below
  expand,           ///< with the norm's
  attention_input,  ///< backward to the layer's input; sequences
  projection,
  qkv,               ///< with the norm's
  embedding_weight,  ///< rows of the token table, the position table with the first
  norm,              ///< square sum of the gradients; floats of the flat array
  update             ///< AdamW; floats of the flat array
};

struct TrainPiece {
  TrainPart part;
  int microbatch = 0;
  int layer = 0;
  Range range;
  Cost cost;
  int cost_class = 0;
};

/// B sequences per microbatch, M microbatches.
std::vector<TrainPiece> cut_step(const ParameterLayout& layout, std::int64_t B, std::int64_t M);

}  // namespace pipefill
