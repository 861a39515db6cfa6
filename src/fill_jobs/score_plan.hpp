// How scoring is cut into chunks: batches of one size, and every batch in pieces of a transformer's forward.
#pragma once

#include <cstdint>
#include <vector>

#include "fill_jobs/piece.hpp"

namespace pipefill {

enum class ScorePart { embedding, attention, mlp, head };

/// A chunk of one batch: sequences (embedding, attention), rows (mlp) or columns of the logits (head).
struct ScorePiece {
  ScorePart part;
  int layer = 0;
  Range range;
  Cost cost;
  int cost_class = 0;
};

/// The last batch may be smaller than the others, which makes pieces of cost classes of their own.
struct ScorePlan {
  std::int64_t batch, full_batches, rest;
  std::vector<ScorePiece> full, last;  ///< of a batch

  ScorePlan(const ModelShape& shape, std::int64_t sequences, std::int64_t B);

  std::int64_t per_batch() const { return static_cast<std::int64_t>(full.size()); }
  std::int64_t chunks() const { return full_batches * per_batch() + static_cast<std::int64_t>(last.size()); }
  std::int64_t batch_of(std::int64_t chunk) const { return chunk / per_batch(); }
  const std::vector<ScorePiece>& pieces(std::int64_t b) const { return b < full_batches ? full : last; }
  const ScorePiece& piece(std::int64_t chunk) const {
    return pieces(batch_of(chunk))[static_cast<std::size_t>(chunk % per_batch())];
  }
  std::int64_t size_of(std::int64_t b) const { return b < full_batches ? batch : rest; }
  std::int64_t head_pieces(std::int64_t b) const;
  /// Sequences whose last piece is among the first `done` chunks.
  std::int64_t finished(std::int64_t done) const;
};

}  // namespace pipefill
