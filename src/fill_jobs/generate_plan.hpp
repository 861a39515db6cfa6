// How generation is cut into chunks. A batch first takes in what all its prompts have before their last common position
// (prefill, in pieces as `score` has them), then goes token by token; a chunk is a run of half layers, or of columns of
// the logits, of one token of all sequences of the batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fill_jobs/piece.hpp"
#include "fill_jobs/prompts.hpp"

namespace pipefill {

enum class GeneratePart {
  embedding,  ///< prefill; all sequences
  attention,  ///< prefill; sequences
  mlp,        ///< prefill; rows
  token       ///< units of the token, see TokenUnits
};

struct GeneratePiece {
  GeneratePart part;
  int layer = 0;
  Range range;
  Cost cost;
  int cost_class = 0;
};

/// What a token consists of, in order: per layer an attention and an MLP unit, the columns of the logits in pieces, and
/// the choice of the next token.
struct TokenUnits {
  int layers = 0;
  std::vector<Range> columns;
  std::int64_t count() const { return 2 * layers + static_cast<std::int64_t>(columns.size()) + 1; }
};
TokenUnits token_units(const ModelShape& shape, std::int64_t B);

using GeneratePieces = std::shared_ptr<const std::vector<GeneratePiece>>;

/// Sequences [first, first + count) of the shard's, the shortest prompt first.
struct GenerateBatch {
  std::int64_t first = 0, count = 0;
  std::int64_t prefill = 0;  ///< positions 0 .. prefill-1 are taken in at once
  std::int64_t tokens = 0;   ///< positions that go one by one after them
  std::int64_t start = 0;    ///< first chunk
  GeneratePieces prefill_pieces, token_pieces;
  TokenUnits units;
  double cost = 0;  ///< of all its chunks

  std::int64_t chunks() const {
    return static_cast<std::int64_t>(prefill_pieces->size() + token_pieces->size() * static_cast<std::size_t>(tokens));
  }
};

struct GeneratePlace {
  const GenerateBatch* batch;
  const GeneratePiece* piece;
  std::int64_t position = 0;  ///< of a token piece
  std::int64_t index = 0;     ///< of a token piece among those of its token
};

struct GeneratePlan {
  std::int64_t batch = 1;
  std::int64_t positions = 0;  ///< most that any batch reaches: the cache's length
  std::int64_t chunks = 0;
  std::vector<GenerateBatch> batches;

  /// `prompts` by ascending length, `tokens` to generate after each.
  GeneratePlan(const ModelShape& shape, std::span<const Prompt> prompts, std::int64_t tokens, std::int64_t B);
  GeneratePlace place(std::int64_t chunk) const;
  /// Sequences of the batches whose last chunk is among the first `done`.
  std::int64_t finished(std::int64_t done) const;
};

}  // namespace pipefill
