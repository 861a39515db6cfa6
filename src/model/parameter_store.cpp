// Layout and initial values of a stage's parameters.
#include "model/parameter_store.hpp"

#include <algorithm>

#include "base/contract.hpp"
#include "kernels/cast/cast.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "model/carver.hpp"

namespace pipefill {
namespace {

bool holds(std::span<const ModelChunkId> chunks, ModelChunkId chunk) {
  return std::find(chunks.begin(), chunks.end(), chunk) != chunks.end();
}

template <class T>
std::span<T> piece(Carver& carver, std::int64_t elements) {
  return {carver.take<T>(elements), static_cast<std::size_t>(elements)};
}

}  // namespace

bool is_product_weight(const TensorSpec& tensor, const LayerCut& cut, std::span<const ModelChunkId> chunks) {
  if (tensor.shape.size() < 2 || tensor.name == "position_embedding.weight") return false;
  if (tensor.name == "token_embedding.weight") return tensor.tied_chunk.has_value() && holds(chunks, cut.last());
  return true;
}

ParameterStore::ParameterStore(const StageSetup& setup, const ParameterTable& table, Device& device) : device_(device) {
  const auto held = [&](const TensorSpec& tensor) {
    return holds(setup.chunks, tensor.chunk) || (tensor.tied_chunk && holds(setup.chunks, *tensor.tied_chunk));
  };
  const bool bf16 = setup.shape.compute == ComputeType::bf16;
  Carver flat, copies;
  std::int64_t tied_elements = 0;
  for (const TensorSpec& tensor : table) {
    if (!held(tensor)) continue;
    flat.take<float>(tensor.elements());
    if (bf16 && is_product_weight(tensor, setup.cut, setup.chunks)) copies.take<Bf16>(tensor.elements());
    if (tensor.tied_chunk) tied_elements = tensor.elements();
  }
  values_ = device.allocate(flat.taken(), "parameters");
  gradients_ = device.allocate(flat.taken(), "gradients");
  factors_ = device.allocate(copies.taken(), "bf16 weights");
  const bool last = holds(setup.chunks, setup.cut.last());
  const bool both_ends = last && holds(setup.chunks, setup.cut.first());
  if (both_ends)
    head_side_ = device.allocate(Bytes{tied_elements * 4}, "the gradient of the tied embedding as the head");

  Carver values(values_), gradients(gradients_), factors(factors_);
  for (const TensorSpec& tensor : table) {
    if (!held(tensor)) continue;
    tensors_.push_back({tensor, piece<float>(values, tensor.elements()), piece<float>(gradients, tensor.elements())});
    initialise(tensor, setup.seed, 0, tensors_.back().values, device.kernels().threads());
    const bool copied = bf16 && is_product_weight(tensor, setup.cut, setup.chunks);
    tensor_factors_.push_back(copied ? factors.take<Bf16>(tensor.elements()) : nullptr);
  }

  if (last) head_ = find(setup.shape.tied ? "token_embedding.weight" : "head.weight");
  if (head_ != nullptr) head_gradient_ = head_->gradient;
  if (const StageTensor* tied = find("token_embedding.weight"); tied != nullptr && setup.shape.tied) {
    if (both_ends) head_gradient_ = head_side_.as<float>().first(tied->values.size());
    tied_ = {tied->gradient, both_ends ? head_gradient_ : std::span<float>{}, !both_ends};
  }
}

const StageTensor* ParameterStore::find(std::string_view name) const {
  const auto it = std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& t) { return t.spec.name == name; });
  return it == tensors_.end() ? nullptr : &*it;
}

const Bf16* ParameterStore::factor(const StageTensor& tensor, Bf16) const {
  const Bf16* copy = tensor_factors_[static_cast<std::size_t>(&tensor - tensors_.data())];
  PF_EXPECT(copy != nullptr);
  return copy;
}

void ParameterStore::clear_gradients() {
  for (const StageTensor& tensor : tensors_) {
    if (tensor.gradient.data() == head_gradient_.data()) continue;
    fill(device_.kernels(), tensor.gradient.data(), 0.0F, static_cast<std::int64_t>(tensor.gradient.size()));
  }
}

void ParameterStore::refresh_factors() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensor_factors_[i] == nullptr) continue;
    cast(device_.kernels(), tensor_factors_[i], tensors_[i].values.data(),
         static_cast<std::int64_t>(tensors_[i].values.size()));
  }
}

}  // namespace pipefill
