// A chunk's forward, input parts and weight parts.
#include "model/chunk.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/contract.hpp"
#include "base/error.hpp"
#include "kernels/embedding/embedding.hpp"

namespace pipefill {

template <class Factor>
Chunk<Factor>::Chunk(const StageSetup& setup, std::size_t index, ParameterStore& store, Device& device)
    : ctx_(device.kernels()),
      shape_(setup.shape, setup.cut, setup.chunks[index], setup.microbatch_size),
      gradient_scale_(static_cast<float>(setup.gradient_scale)),
      slots_(setup.slots[index]),
      deferred_slots_(setup.weight_slots.empty() ? 0 : setup.weight_slots[index]) {
  const ModelChunkId id = setup.chunks[index];
  for (int l = 0; l < shape_.layers; ++l)
    layer_weights_.push_back(layer_weights<Factor>(store, setup.cut[id].first + l));
  if (shape_.last) head_weights_ = head_weights<Factor>(store);
  if (shape_.first) {
    token_embedding_ = store.find("token_embedding.weight");
    position_embedding_ = store.find("position_embedding.weight");
  }

  Carver slot, deferred, shared;
  carve_activations<Factor>(shape_, slot);
  carve_gradients<Factor>(shape_, deferred);
  carve_shared_gradients<Factor>(shape_, shared);
  carve_scratch(shape_, setup.shape.compute, shared);
  slot_bytes_ = slot.taken();
  deferred_slot_bytes_ = deferred.taken();
  stash_memory_ =
      device.allocate(slot_bytes_ * slots_.count(),
                      fmt::format("the activations of chunk {}, {} microbatches,", id.value, slots_.count()));
  deferred_memory_ = device.allocate(
      deferred_slot_bytes_ * deferred_slots_.count(),
      fmt::format("the deferred gradients of chunk {}, {} microbatches,", id.value, deferred_slots_.count()));
  shared_memory_ = device.allocate(shared.taken(), fmt::format("the gradients of chunk {}'s activations", id.value));

  Carver stash_carver(stash_memory_), deferred_carver(deferred_memory_), shared_carver(shared_memory_);
  for (int s = 0; s < slots_.count(); ++s) stash_.push_back(carve_activations<Factor>(shape_, stash_carver));
  for (int s = 0; s < deferred_slots_.count(); ++s)
    deferred_.push_back(carve_gradients<Factor>(shape_, deferred_carver));
  shared_ = carve_shared_gradients<Factor>(shape_, shared_carver);
  scratch_ = carve_scratch(shape_, setup.shape.compute, shared_carver);
}

template <class Factor>
void Chunk<Factor>::check_message(std::size_t elements, bool expected) const {
  const std::size_t right = expected ? static_cast<std::size_t>(shape_.tokens() * shape_.C) : 0;
  if (elements == right) return;
  throw Error(ExitCode::bug, fmt::format("a message of {} elements reached a chunk that takes {}", elements, right));
}

/// Where the residual stream before layer `layer` lives; behind the last layer: with the head, or with the caller.
template <class Factor>
float* Chunk<Factor>::residual_before(ChunkActivations<Factor>& a, int layer, std::span<float> output) const {
  if (layer < shape_.layers) return a.layers[static_cast<std::size_t>(layer)].input;
  return shape_.last ? a.input : output.data();
}

template <class Factor>
double Chunk<Factor>::forward(MicrobatchId microbatch, const StageTokens& tokens, std::span<const float> input,
                              std::span<float> output, const Progress& progress, ForwardMode mode) {
  check_message(input.size(), !shape_.first);
  check_message(output.size(), !shape_.last);
  PF_EXPECT(!shape_.first || static_cast<std::int64_t>(tokens.inputs.size()) == shape_.tokens());
  PF_EXPECT(!shape_.last || static_cast<std::int64_t>(tokens.targets.size()) == shape_.tokens());
  const std::size_t slot = slots_.acquire(microbatch);
  ChunkActivations<Factor>& a = stash_[slot];

  float* residual = residual_before(a, 0, output);
  if (shape_.first) {
    std::copy(tokens.inputs.begin(), tokens.inputs.end(), a.inputs);
    embedding_forward(ctx_, residual, a.inputs, token_embedding_->values.data(), position_embedding_->values.data(),
                      shape_.B, shape_.T, shape_.C);
  } else {
    std::copy(input.begin(), input.end(), residual);
  }
  for (int l = 0; l < shape_.layers; ++l) {
    const auto i = static_cast<std::size_t>(l);
    block_forward(ctx_, shape_, layer_weights_[i], a.layers[i], residual_before(a, l + 1, output), progress);
  }
  double loss = 0;
  if (shape_.last) {
    std::copy(tokens.targets.begin(), tokens.targets.end(), a.targets);
    loss = head_forward(ctx_, shape_, head_weights_, a, gradient_scale_, progress);
  }
  if (mode == ForwardMode::validation) slots_.release(slot);
  return loss;
}

template <class Factor>
void Chunk<Factor>::run_head_weight_part(const ChunkActivations<Factor>& a, const ChunkGradients<Factor>& g,
                                         const Progress& progress) {
  head_backward_weight(ctx_, shape_, head_weights_, a, g, head_gradient_, progress);
  head_gradient_ = Accumulate::yes;
}

template <class Factor>
void Chunk<Factor>::run_embedding_weight_part(const ChunkActivations<Factor>& a, const ChunkGradients<Factor>& g) {
  embedding_backward(ctx_, token_embedding_->gradient.data(), position_embedding_->gradient.data(), g.embedding,
                     a.inputs, shape_.B, shape_.T, shape_.C);
}

template <class Factor>
void Chunk<Factor>::run_input_parts(const ChunkActivations<Factor>& a, ChunkGradients<Factor>& g,
                                    std::span<const float> output_gradient, std::span<float> input_gradient,
                                    WeightParts weights, const Progress& progress) {
  check_message(output_gradient.size(), !shape_.last);
  check_message(input_gradient.size(), !shape_.first);
  float* residual = shape_.first ? g.embedding : input_gradient.data();
  if (shape_.last) {
    head_backward_input(ctx_, shape_, head_weights_, a, g, residual, progress);
    if (weights == WeightParts::at_once) run_head_weight_part(a, g, progress);
  } else {
    std::copy(output_gradient.begin(), output_gradient.end(), residual);
  }
  for (std::size_t l = static_cast<std::size_t>(shape_.layers); l-- > 0;) {
    block_backward_input(ctx_, shape_, layer_weights_[l], a.layers[l], g.layers[l], residual, scratch_, progress);
    if (weights == WeightParts::at_once)
      block_backward_weight(ctx_, shape_, layer_weights_[l], a.layers[l], g.layers[l], progress);
  }
  if (shape_.first && weights == WeightParts::at_once) run_embedding_weight_part(a, g);
}

template <class Factor>
void Chunk<Factor>::backward_input(MicrobatchId microbatch, std::span<const float> output_gradient,
                                   std::span<float> input_gradient, const Progress& progress) {
  const std::size_t slot = slots_.find(microbatch);
  run_input_parts(stash_[slot], deferred_[deferred_slots_.acquire(microbatch)], output_gradient, input_gradient,
                  WeightParts::later, progress);
}

template <class Factor>
void Chunk<Factor>::backward_weight(MicrobatchId microbatch, const Progress& progress) {
  const std::size_t slot = slots_.find(microbatch), deferred_slot = deferred_slots_.find(microbatch);
  const ChunkActivations<Factor>& a = stash_[slot];
  const ChunkGradients<Factor>& g = deferred_[deferred_slot];
  if (shape_.last) run_head_weight_part(a, g, progress);
  for (std::size_t l = static_cast<std::size_t>(shape_.layers); l-- > 0;)
    block_backward_weight(ctx_, shape_, layer_weights_[l], a.layers[l], g.layers[l], progress);
  if (shape_.first) run_embedding_weight_part(a, g);
  deferred_slots_.release(deferred_slot);
  slots_.release(slot);
}

template <class Factor>
void Chunk<Factor>::backward(MicrobatchId microbatch, std::span<const float> output_gradient,
                             std::span<float> input_gradient, const Progress& progress) {
  const std::size_t slot = slots_.find(microbatch);
  run_input_parts(stash_[slot], shared_, output_gradient, input_gradient, WeightParts::at_once, progress);
  slots_.release(slot);
}

template <class Factor>
Bytes Chunk<Factor>::bytes_in_use() const {
  return slot_bytes_ * slots_.in_use() + deferred_slot_bytes_ * deferred_slots_.in_use();
}

template <class Factor>
Bytes Chunk<Factor>::bytes_reserved() const {
  return slot_bytes_ * slots_.count() + deferred_slot_bytes_ * deferred_slots_.count();
}

template class Chunk<float>;
template class Chunk<Bf16>;

}  // namespace pipefill
