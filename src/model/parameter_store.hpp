// The parameters and gradients of a stage: two flat buffers, seen by tensor name, and bf16 copies of the weights where
// products are in bf16.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.hpp"
#include "kernels/bf16.hpp"
#include "model/stage.hpp"

namespace pipefill {

class ParameterStore {
 public:
  /// Allocates and initialises every tensor of the chunks; gradients are zero.
  ParameterStore(const StageSetup& setup, const ParameterTable& table, Device& device);

  std::span<const StageTensor> tensors() const { return tensors_; }
  const StageTensor* find(std::string_view name) const;
  /// Where the weight's products find it: the master, or its bf16 copy.
  const float* factor(const StageTensor& tensor, float /*type*/) const { return tensor.values.data(); }
  const Bf16* factor(const StageTensor& tensor, Bf16 /*type*/) const;

  /// The head's weight, with the accumulator of its gradient; none when the last chunk is elsewhere.
  const StageTensor* head() const { return head_; }
  std::span<float> head_gradient() const { return head_gradient_; }
  Stage::TiedGradient tied() const { return tied_; }

  /// Zeroes all gradients but the head's, which its first product of the step overwrites.
  void clear_gradients();
  void refresh_factors();

 private:
  Device& device_;
  Buffer values_, gradients_, head_side_, factors_;
  std::vector<StageTensor> tensors_;
  std::vector<Bf16*> tensor_factors_;  ///< per tensor; null where it has no copy
  const StageTensor* head_ = nullptr;
  std::span<float> head_gradient_;
  Stage::TiedGradient tied_;
};

/// Whether products use this tensor, so that bf16 keeps a copy of it on a stage that holds these chunks.
bool is_product_weight(const TensorSpec& tensor, const LayerCut& cut, std::span<const ModelChunkId> chunks);

}  // namespace pipefill
