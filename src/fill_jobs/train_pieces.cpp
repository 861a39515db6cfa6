// The order of a step's pieces, their sizes and costs.
#include "fill_jobs/train_pieces.hpp"

#include <algorithm>

namespace pipefill {
namespace {

/// Floats of the flat array per norm piece (4 bytes read each, summed in double) and per update piece (copies of three
/// arrays, then one pass of AdamW over four: 52 bytes each).
constexpr std::int64_t kNormFloats = std::int64_t{1} << 19;
constexpr std::int64_t kUpdateFloats = std::int64_t{1} << 17;

/// Rows of a weight per piece: multiples keep its rows' gradients on cache lines, and oneDNN's tiles full.
constexpr std::int64_t kWeightGrain = 16;

class StepCutter {
 public:
  StepCutter(const ParameterLayout& layout, std::int64_t B, std::int64_t M)
      : shape_(layout.shape), floats_(layout.floats), B_(B), M_(M), N_(B * layout.shape.context) {}

  std::vector<TrainPiece> cut() {
    for (std::int64_t m = 0; m < M_; ++m) {
      microbatch_ = static_cast<int>(m);
      forward();
      for (int l = shape_.layers; l-- > 0;) backward(l);
      cut_weight(TrainPart::embedding_weight, 0, shape_.vocab, N_ / std::max(shape_.vocab, 1) + 1, shape_.channels);
    }
    microbatch_ = 0;
    add(TrainPart::norm, 0, floats_, kNormFloats, [](double n) { return Cost{2 * n, 4 * n}; });
    add(TrainPart::update, 0, floats_, kUpdateFloats, [](double n) { return Cost{15 * n, 52 * n}; });
    return std::move(pieces_);
  }

 private:
  template <class CostOf>
  void add(TrainPart part, int layer, std::int64_t total, std::int64_t most, const CostOf& cost,
           std::int64_t grain = 1) {
    for (const Range& range : even_parts(total, most, grain)) {
      // Later microbatches copy the gradients so far.
      const int cost_class = 2 * static_cast<int>(part) + (microbatch_ > 0 ? 1 : 0);
      pieces_.push_back({part, microbatch_, layer, range, cost(static_cast<double>(range.count)), cost_class});
    }
  }

  void forward() {
    const double T = shape_.context, C = shape_.channels, V = shape_.vocab, N = static_cast<double>(N_);
    add(TrainPart::embedding, 0, B_, B_, [&](double) { return Cost{N * C, 12 * N * C}; });
    for (int l = 0; l < shape_.layers; ++l) {
      add(TrainPart::attention, l, B_, rows_per_chunk(attention_cost(shape_, 1, T).flops),
          [&](double b) { return attention_cost(shape_, b, T); });
      add(TrainPart::mlp, l, N_, rows_per_chunk(mlp_cost(shape_, 1).flops),
          [&](double n) { return mlp_cost(shape_, n); });
    }
    // At least 8 rows: fewer would read the whole weight for next to nothing.
    add(TrainPart::head, 0, N_, std::max<std::int64_t>(8, rows_per_chunk(4 * V * C)), [&](double n) {
      return Cost{4 * n * V * C, 4 * (2 * V * C + n * (3 * V + 4 * C))};
    });
    cut_weight(TrainPart::head_weight, 0, shape_.vocab, N_, shape_.channels);
  }

  void backward(int l) {
    const double T = shape_.context, C = shape_.channels;
    const std::int64_t width = shape_.channels;
    add(TrainPart::mlp_input, l, N_, rows_per_chunk(mlp_cost(shape_, 1).flops),
        [&](double n) { return mlp_cost(shape_, n); });
    cut_weight(TrainPart::contract, l, width, N_, 4 * width);
    cut_weight(TrainPart::expand, l, 4 * width, N_, width);
    // The products of the forward, and 2.5 times its attention (Dao et al. 2022, section 3.1: recomputed).
    const auto attention = [&](double b) {
      Cost cost = attention_cost(shape_, b, T);
      cost.flops += 3 * T * T * C * b;
      return cost;
    };
    add(TrainPart::attention_input, l, B_, rows_per_chunk(attention(1).flops), attention);
    cut_weight(TrainPart::projection, l, width, N_, width);
    cut_weight(TrainPart::qkv, l, 3 * width, N_, width);
  }

  /// Gradient of a weight (rows, columns), each element a sum of `terms` products; later microbatches add to a copy.
  void cut_weight(TrainPart part, int layer, std::int64_t rows, std::int64_t terms, std::int64_t columns) {
    const auto k = static_cast<double>(terms), n = static_cast<double>(columns);
    const double copies = microbatch_ > 0 ? 3 : 1;
    const auto cost = [&](double r) { return Cost{2 * r * k * n, 4 * (r * k + k * n + copies * r * n)}; };
    const double row_bytes = 4 * copies * n;
    const auto most = std::min(rows_per_chunk(2 * k * n), static_cast<std::int64_t>(kChunkBytes / row_bytes) + 1);
    add(part, layer, rows, most, cost, kWeightGrain);
  }

  const ModelShape shape_;
  const std::int64_t floats_, B_, M_, N_;
  int microbatch_ = 0;
  std::vector<TrainPiece> pieces_;
};

}  // namespace

std::vector<TrainPiece> cut_step(const ParameterLayout& layout, std::int64_t B, std::int64_t M) {
  return StepCutter(layout, B, M).cut();
}

}  // namespace pipefill
