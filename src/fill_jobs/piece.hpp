// How work is cut into chunks: about equal parts, and the costs of a transformer's parts by formula.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/model_shape.hpp"

namespace pipefill {

/// Aim of a chunk: 0.5 ms at 100 GFLOP/s and 10 GB/s, about what a core gives.
inline constexpr double kChunkFlops = 5e7;
inline constexpr double kChunkBytes = 5e6;

/// What oneDNN packs and the attention kernel tiles beside the buffers that a job allocates itself.
inline constexpr std::int64_t kLibraryMemory = 8 << 20;

struct Cost {
  double flops = 0, bytes = 0;
  Cost& operator+=(const Cost& other) { return flops += other.flops, bytes += other.bytes, *this; }
  /// In chunks of the size aimed at.
  double chunks() const { return std::max(flops / kChunkFlops, bytes / kChunkBytes); }
};

struct Range {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
};

/// [0, total) in as few parts as it takes, all of about the same size, none much over `most`; they meet at multiples of
/// `grain`.
inline std::vector<Range> even_parts(std::int64_t total, std::int64_t most, std::int64_t grain = 1) {
  const std::int64_t parts = (total + std::max(most, grain) - 1) / std::max(most, grain);
  const std::int64_t grains = (total + grain - 1) / grain;
  std::vector<Range> ranges;
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t first = std::min(total, grains * i / parts * grain);
    ranges.push_back({first, std::min(total, grains * (i + 1) / parts * grain) - first});
  }
  return ranges;
}

/// A product of (n,k) and (k,m) matrices, both read and the result written once.
inline Cost product_cost(double n, double k, double m) { return {2 * n * k * m, 4 * (n * k + k * m + n * m)}; }

/// Forward of the attention half on B sequences of T rows: 8 C^2 per row, and 2 T C per row for causal attention.
inline Cost attention_cost(const ModelShape& shape, double B, double T) {
  const double C = shape.channels;
  return {B * T * (8 * C * C + 2 * T * C), 4 * (4 * C * C + B * T * 8 * C)};
}

/// Forward of the MLP half on N rows.
inline Cost mlp_cost(const ModelShape& shape, double N) {
  const double C = shape.channels;
  return {N * 16 * C * C, 4 * (8 * C * C + N * 11 * C)};
}

/// Cuts by flops alone, for products of many rows, whose weights are read once per chunk however small it is.
inline std::int64_t rows_per_chunk(double flops_per_row) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kChunkFlops / flops_per_row));
}

}  // namespace pipefill
