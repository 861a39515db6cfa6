// Pieces of a batch, and counting over batches.
#include "fill_jobs/score_plan.hpp"

#include <algorithm>

namespace pipefill {
namespace {

std::vector<ScorePiece> cut_batch(const ModelShape& shape, std::int64_t B) {
  const double T = shape.context, C = shape.channels, N = static_cast<double>(B) * T;
  std::vector<ScorePiece> pieces{{ScorePart::embedding, 0, {0, B}, {N * C, 12 * N * C}}};
  const auto add = [&](ScorePart part, int layer, std::int64_t total, std::int64_t most, std::int64_t grain,
                       auto cost) {
    for (const Range& range : even_parts(total, most, grain))
      pieces.push_back({part, layer, range, cost(static_cast<double>(range.count)), static_cast<int>(part)});
  };
  for (int l = 0; l < shape.layers; ++l) {
    add(ScorePart::attention, l, B, rows_per_chunk(attention_cost(shape, 1, T).flops), 1,
        [&](double sequences) { return attention_cost(shape, sequences, T); });
    add(ScorePart::mlp, l, B * shape.context, rows_per_chunk(mlp_cost(shape, 1).flops), 1,
        [&](double rows) { return mlp_cost(shape, rows); });
  }
  // The final norm is computed again for every piece of the columns: at 64 columns it is a tenth of the work.
  add(ScorePart::head, 0, shape.vocab, std::max<std::int64_t>(64, rows_per_chunk(2 * N * C)), 16,
      [&](double columns) { return product_cost(N, C, columns); });
  return pieces;
}

}  // namespace

ScorePlan::ScorePlan(const ModelShape& shape, std::int64_t sequences, std::int64_t B)
    : batch(B), full_batches(sequences / B), rest(sequences % B), full(cut_batch(shape, B)) {
  if (rest > 0) last = cut_batch(shape, rest);
  for (ScorePiece& piece : last) piece.cost_class += static_cast<int>(ScorePart::head) + 1;
}

std::int64_t ScorePlan::head_pieces(std::int64_t b) const {
  return std::count_if(pieces(b).begin(), pieces(b).end(),
                       [](const ScorePiece& piece) { return piece.part == ScorePart::head; });
}

std::int64_t ScorePlan::finished(std::int64_t done) const {
  return done >= chunks() ? full_batches * batch + rest : done / per_batch() * batch;
}

}  // namespace pipefill
