// The one table of the model's parameters: name, shape, initialisation, decay and holder of every tensor. Whatever
// lists tensors (stages, optimizer, norm, checkpoints, exports) walks this table in its order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/id.hpp"
#include "model/layer_cut.hpp"
#include "model/model_shape.hpp"

namespace pipefill {

enum class Initial { zero, one, normal };
enum class Decay { no, yes };

/// "block.3.attention.qkv.weight" (3C,C). Matrices are (outputs, inputs), row-major, as in llm.c's files.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the whole tensor; one or two dimensions
  Initial initial = Initial::zero;
  double deviation = 0;  ///< of Initial::normal
  Decay decay = Decay::no;
  ModelChunkId chunk;                      ///< holds it, and counts it in the global norm
  std::optional<ModelChunkId> tied_chunk;  ///< tied token embedding: the last chunk holds it too, as its head

  std::int64_t rows() const { return shape[0]; }
  std::int64_t columns() const { return shape.size() > 1 ? shape[1] : 1; }
  std::int64_t elements() const { return rows() * columns(); }
  bool on(ModelChunkId c) const { return c == chunk || c == tied_chunk; }
};

using ParameterTable = std::vector<TensorSpec>;

/// token_embedding.weight, position_embedding.weight, block.<l>.(attention_norm.{weight,bias}, attention.qkv.*,
/// attention.projection.*, mlp_norm.*, mlp.expand.*, mlp.projection.*) for l in order, final_norm.*, and head.weight
/// where it is not tied. GPT-2's initialisation: N(0, 0.02), projections onto the residual N(0, 0.02 / sqrt(2L)),
/// biases 0, norms 1.
ParameterTable parameter_table(const ModelShape& shape, const LayerCut& cut);

/// Number of parameters, the tied embedding counted once.
std::int64_t parameter_count(const ParameterTable& table);

/// A well-mixed 64-bit hash of a tensor's name, the same on every host.
std::uint64_t name_hash(const std::string& name);

/// Writes elements [first, first + values.size()) of the tensor's initial value: a pure function of (seed, name,
/// element), so it is the same for every layout.
void initialise(const TensorSpec& tensor, std::uint64_t seed, std::int64_t first, std::span<float> values,
                int threads = 1);

}  // namespace pipefill
