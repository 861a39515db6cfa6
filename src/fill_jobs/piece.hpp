// How work is cut into chunks: about equal parts, and the costs of a transformer's parts by formula.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/model_shape.hpp"

namespace pipefill {

/// Aim of a chunk: at most 0.5 ms at 100 GFLOP/s or 0.7 ms at 10 GB/s, about what a core gives.
inline constexpr double kChunkFlops = 5e7;
inline constexpr double kChunkBytes = 7e6;

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

/// [0, total) in as few parts of at most `most` (at least 1) as it takes, all of about the same size.
inline std::vector<Range> even_parts(std::int64_t total, std::int64_t most) {
  const std::int64_t parts =
      total / std::max<std::int64_t>(most, 1) + (total % std::max<std::int64_t>(most, 1) != 0 ? 1 : 0);
  std::vector<Range> ranges;
  for (std::int64_t i = 0; i < parts; ++i)
    ranges.push_back({total * i / parts, total * (i + 1) / parts - total * i / parts});
  return ranges;
}

/// How many of `cost` make one chunk, at least 1.
inline std::int64_t per_chunk(const Cost& cost) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(1 / std::max(cost.chunks(), 1e-9)));
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
