// Where each of a transformer's parameters lies in one flat array of floats, in the parameter table's order.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_shape.hpp"
#include "model/parameters.hpp"

namespace pipefill {

/// Offsets into the array, in floats.
struct NormOffsets {
  std::int64_t weight = 0, bias = 0;
};
using LinearOffsets = NormOffsets;
struct LayerOffsets {
  NormOffsets attention_norm, mlp_norm;
  LinearOffsets qkv, projection, expand, contract;
};

/// Every tensor starts at a multiple of 16 floats; what lies between is never used.
struct ParameterLayout {
  explicit ParameterLayout(const ModelShape& shape);

  ModelShape shape;
  ParameterTable table;
  std::vector<std::int64_t> offsets;  ///< per tensor of the table
  std::int64_t floats = 0;            ///< of the array
  std::int64_t token_embedding = 0, position_embedding = 0;
  std::vector<LayerOffsets> layers;
  NormOffsets final_norm;
  std::int64_t head = 0;  ///< (V,C); the token embedding where it is tied
};

}  // namespace pipefill
