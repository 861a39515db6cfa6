// Names and sizes of tensor rows; see tensor_slice.hpp.
#include "checkpoint/tensor_slice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pipefill {

std::string_view group_name(TensorGroup group) {
  switch (group) {
    case TensorGroup::parameters:
      return "parameters";
    case TensorGroup::moment1:
      return "moment1";
    case TensorGroup::moment2:
      return "moment2";
  }
  return "?";
}

std::int64_t TensorRows::columns() const {
  std::int64_t product = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) product *= shape[i];
  return product;
}

std::string TensorRows::describe() const {
  return fmt::format("{}/{} rows {}..{} of ({})", group_name(group), name, row_begin, row_end, fmt::join(shape, ","));
}

}  // namespace pipefill
