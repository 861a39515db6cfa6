// Batches, their pieces, and the way from a chunk's number to its piece.
#include "fill_jobs/generate_plan.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace pipefill {
namespace {

std::vector<GeneratePiece> cut_prefill(const ModelShape& shape, std::int64_t B, std::int64_t T) {
  std::vector<GeneratePiece> pieces;
  if (T == 0) return pieces;
  const auto rows = static_cast<double>(B * T), t = static_cast<double>(T);
  const double C = shape.channels;
  const auto add = [&](GeneratePart part, int layer, const Range& range, const Cost& cost) {
    pieces.push_back({part, layer, range, cost, static_cast<int>(part)});
  };
  add(GeneratePart::embedding, 0, {0, B}, {rows * C, 12 * rows * C});
  for (int l = 0; l < shape.layers; ++l) {
    for (const Range& r : even_parts(B, rows_per_chunk(attention_cost(shape, 1, t).flops)))
      add(GeneratePart::attention, l, r, attention_cost(shape, static_cast<double>(r.count), t));
    if (l + 1 == shape.layers) break;  // nothing but the last layer's keys and values is asked of these positions
    for (const Range& r : even_parts(B * T, rows_per_chunk(mlp_cost(shape, 1).flops)))
      add(GeneratePart::mlp, l, r, mlp_cost(shape, static_cast<double>(r.count)));
  }
  return pieces;
}

/// Units join into a chunk until it has the size aimed at. The cache's part of the cost grows with the position; half
/// of the longest stands for all.
std::vector<GeneratePiece> cut_token(const ModelShape& shape, const TokenUnits& units, std::int64_t B,
                                     std::int64_t positions) {
  const auto b = static_cast<double>(B), C = static_cast<double>(shape.channels);
  const double cached = b * static_cast<double>(positions) / 2 * C;
  std::vector<Cost> costs;
  for (int l = 0; l < shape.layers; ++l) {
    Cost attention = attention_cost(shape, b, 1);
    attention += {4 * cached, 8 * cached};
    costs.push_back(attention);
    costs.push_back(mlp_cost(shape, b));
  }
  for (const Range& columns : units.columns) costs.push_back(product_cost(b, C, static_cast<double>(columns.count)));
  costs.push_back({10 * b * shape.vocab, 16 * b * shape.vocab});

  std::vector<GeneratePiece> pieces;
  for (std::int64_t u = 0; u < units.count(); ++u) {
    const Cost& cost = costs[static_cast<std::size_t>(u)];
    if (!pieces.empty()) {
      Cost joined = pieces.back().cost;
      joined += cost;
      if (joined.chunks() <= 1) {
        pieces.back().cost = joined;
        ++pieces.back().range.count;
        continue;
      }
    }
    pieces.push_back({GeneratePart::token, 0, {u, 1}, cost});
  }
  int classes = static_cast<int>(GeneratePart::token);
  for (auto piece = pieces.begin(); piece != pieces.end(); ++piece) {
    const auto alike = std::find_if(pieces.begin(), piece, [&](const GeneratePiece& other) {
      return other.cost.flops == piece->cost.flops && other.cost.bytes == piece->cost.bytes;
    });
    piece->cost_class = alike == piece ? classes++ : alike->cost_class;
  }
  return pieces;
}

double total_cost(const std::vector<GeneratePiece>& pieces) {
  double sum = 0;
  for (const GeneratePiece& piece : pieces) sum += piece.cost.chunks();
  return sum;
}

}  // namespace

TokenUnits token_units(const ModelShape& shape, std::int64_t B) {
  const Cost column = product_cost(static_cast<double>(B), shape.channels, 1);
  return {shape.layers, even_parts(shape.vocab, static_cast<std::int64_t>(1 / column.chunks()), 16)};
}

GeneratePlan::GeneratePlan(const ModelShape& shape, std::span<const Prompt> prompts, std::int64_t tokens,
                           std::int64_t B)
    : batch(B) {
  const auto length = [&](std::int64_t i) {
    return static_cast<std::int64_t>(prompts[static_cast<std::size_t>(i)].tokens.size());
  };
  const auto all = static_cast<std::int64_t>(prompts.size());
  positions = all > 0 ? length(all - 1) + tokens - 1 : 0;
  std::map<std::pair<std::int64_t, std::int64_t>, GeneratePieces> prefills;
  std::map<std::int64_t, GeneratePieces> token_pieces;
  for (std::int64_t first = 0; first < all; first += B) {
    GenerateBatch b;
    b.first = first;
    b.count = std::min(B, all - first);
    b.prefill = length(first) - 1;
    b.tokens = length(first + b.count - 1) + tokens - 1 - b.prefill;
    b.start = chunks;
    b.units = token_units(shape, b.count);
    GeneratePieces& prefill = prefills[{b.count, b.prefill}];
    if (!prefill) prefill = std::make_shared<std::vector<GeneratePiece>>(cut_prefill(shape, b.count, b.prefill));
    GeneratePieces& token = token_pieces[b.count];
    if (!token) token = std::make_shared<std::vector<GeneratePiece>>(cut_token(shape, b.units, b.count, positions));
    b.prefill_pieces = prefill;
    b.token_pieces = token;
    b.cost = total_cost(*prefill) + total_cost(*token) * static_cast<double>(b.tokens);
    chunks += b.chunks();
    batches.push_back(std::move(b));
  }
}

GeneratePlace GeneratePlan::place(std::int64_t chunk) const {
  const auto after = std::upper_bound(batches.begin(), batches.end(), chunk,
                                      [](std::int64_t c, const GenerateBatch& b) { return c < b.start; });
  const GenerateBatch& b = *(after - 1);
  const std::int64_t within = chunk - b.start, prefill = static_cast<std::int64_t>(b.prefill_pieces->size());
  if (within < prefill) return {&b, &(*b.prefill_pieces)[static_cast<std::size_t>(within)]};
  const auto per_token = static_cast<std::int64_t>(b.token_pieces->size());
  const std::int64_t index = (within - prefill) % per_token;
  return {&b, &(*b.token_pieces)[static_cast<std::size_t>(index)], b.prefill + (within - prefill) / per_token, index};
}

std::int64_t GeneratePlan::finished(std::int64_t done) const {
  std::int64_t count = 0;
  for (const GenerateBatch& b : batches)
    if (b.start + b.chunks() <= done) count += b.count;
  return count;
}

}  // namespace pipefill
