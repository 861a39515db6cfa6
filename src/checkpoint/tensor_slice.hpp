// What a rank puts into a checkpoint and takes out of one: ranges of rows of named tensors. Rows are the first
// dimension of the whole tensor; nothing here knows of stages or replicas, which is why any layout loads into any
// other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipefill {

/// The groups of a checkpoint's HDF5 files; AdamW's two moments are named as their parameter.
enum class TensorGroup { parameters, moment1, moment2 };
std::string_view group_name(TensorGroup group);  ///< "parameters", "moment1", "moment2"

/// Rows [row_begin, row_end) of the tensor `name` of `shape` (at least one dimension), all columns.
struct TensorRows {
  TensorGroup group = TensorGroup::parameters;
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;

  std::int64_t columns() const;  ///< product of all dimensions but the first
  std::int64_t elements() const { return (row_end - row_begin) * columns(); }
  /// "parameters/block.0.mlp.expand.weight rows 0..64 of (256,64)"
  std::string describe() const;
  bool operator==(const TensorRows&) const = default;
};

/// To be saved: values.size() == elements(). Over all ranks every tensor is covered exactly once: replica 0 gives the
/// parameters, a tied embedding comes from one of its two stages, moments come from whoever owns them (ZeRO-1).
struct TensorSlice : TensorRows {
  std::span<const float> values;
};

/// To be loaded: values.size() == elements(). Several ranks may ask for the same rows.
struct TensorDestination : TensorRows {
  std::span<float> values;
};

}  // namespace pipefill
