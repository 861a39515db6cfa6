// The parameter table, and the initial value of any part of any tensor.
#include "model/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/contract.hpp"
#include "base/random.hpp"

namespace pipefill {
namespace {

constexpr double kDeviation = 0.02;

/// Uniform in (0, 1], from the upper 53 bits of draw `index` of the stream `key`.
double uniform(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t bits = mix(key + (index + 1) * kGoldenGamma);
  return (static_cast<double>(bits >> 11) + 1.0) * 0x1p-53;
}

}  // namespace

std::uint64_t name_hash(const std::string& name) {  // FNV-1a, then mixed
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix(hash);
}

ParameterTable parameter_table(const ModelShape& shape, const LayerCut& cut) {
  check_shape(shape);
  const std::int64_t C = shape.channels, V = shape.vocab, T = shape.context;
  const double onto_residual = kDeviation / std::sqrt(2.0 * std::max(shape.layers, 1));
  ParameterTable table;
  const auto matrix = [&](std::string name, std::int64_t rows, std::int64_t columns, double deviation, ModelChunkId c) {
    table.push_back({std::move(name), {rows, columns}, Initial::normal, deviation, Decay::yes, c, {}});
  };
  const auto vector = [&](std::string name, std::int64_t rows, Initial initial, ModelChunkId c) {
    table.push_back({std::move(name), {rows}, initial, 0, Decay::no, c, {}});
  };
  const auto norm = [&](const std::string& name, ModelChunkId c) {
    vector(name + ".weight", C, Initial::one, c);
    vector(name + ".bias", C, Initial::zero, c);
  };
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out, double deviation,
                          ModelChunkId c) {
    matrix(name + ".weight", out, in, deviation, c);
    vector(name + ".bias", out, Initial::zero, c);
  };

  matrix("token_embedding.weight", V, C, kDeviation, cut.first());
  if (shape.tied) table.back().tied_chunk = cut.last();
  matrix("position_embedding.weight", T, C, kDeviation, cut.first());
  for (int c = 0; c < cut.size(); ++c) {
    const ModelChunkId chunk{c};
    for (int l = cut[chunk].first; l < cut[chunk].first + cut[chunk].count; ++l) {
      const std::string block = fmt::format("block.{}.", l);
      norm(block + "attention_norm", chunk);
      linear(block + "attention.qkv", C, 3 * C, kDeviation, chunk);
      linear(block + "attention.projection", C, C, onto_residual, chunk);
      norm(block + "mlp_norm", chunk);
      linear(block + "mlp.expand", C, 4 * C, kDeviation, chunk);
      linear(block + "mlp.projection", 4 * C, C, onto_residual, chunk);
    }
  }
  norm("final_norm", cut.last());
  if (!shape.tied) matrix("head.weight", V, C, kDeviation, cut.last());
  return table;
}

std::int64_t parameter_count(const ParameterTable& table) {
  std::int64_t count = 0;
  for (const TensorSpec& tensor : table) count += tensor.elements();
  return count;
}

void initialise(const TensorSpec& tensor, std::uint64_t seed, std::int64_t first, std::span<float> values,
                int threads) {
  PF_EXPECT(first >= 0 && first + static_cast<std::int64_t>(values.size()) <= tensor.elements());
  if (tensor.initial != Initial::normal) {
    for (float& value : values) value = tensor.initial == Initial::one ? 1.0F : 0.0F;
    return;
  }
  const std::uint64_t key = mix(seed + name_hash(tensor.name));
  const auto count = static_cast<std::int64_t>(values.size());
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t pair = first / 2; pair <= (first + count - 1) / 2; ++pair) {
    // Box & Muller 1958: elements 2p and 2p+1 come from draws 2p and 2p+1.
    const auto draw = static_cast<std::uint64_t>(2 * pair);
    const double radius = tensor.deviation * std::sqrt(-2.0 * std::log(uniform(key, draw)));
    const double angle = 2.0 * std::numbers::pi * uniform(key, draw + 1);
    const std::int64_t even = 2 * pair - first;
    if (even >= 0) values[static_cast<std::size_t>(even)] = static_cast<float>(radius * std::cos(angle));
    if (even + 1 < count) values[static_cast<std::size_t>(even + 1)] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace pipefill
