// One chunk of the model at work: embedding (first chunk), layers, head (last chunk), over a stash of its own.
#pragma once

#include <span>
#include <vector>

#include "model/activation_stash.hpp"
#include "model/block.hpp"
#include "model/head.hpp"
#include "model/parameter_store.hpp"

namespace pipefill {

template <class Factor>
class Chunk {
 public:
  /// `index` of the chunk in setup.chunks. Allocates the stash; the store and the device outlive the chunk.
  Chunk(const StageSetup& setup, std::size_t index, ParameterStore& store, Device& device);

  void begin_step() { head_gradient_ = Accumulate::no; }

  /// Returns the loss sum on the last chunk, 0 elsewhere.
  double forward(MicrobatchId microbatch, const StageTokens& tokens, std::span<const float> input,
                 std::span<float> output, const Progress& progress, ForwardMode mode);

  void backward_input(MicrobatchId microbatch, std::span<const float> output_gradient, std::span<float> input_gradient,
                      const Progress& progress);
  void backward_weight(MicrobatchId microbatch, const Progress& progress);
  void backward(MicrobatchId microbatch, std::span<const float> output_gradient, std::span<float> input_gradient,
                const Progress& progress);

  Bytes bytes_in_use() const;
  Bytes bytes_reserved() const;

 private:
  enum class WeightParts { at_once, later };

  float* residual_before(ChunkActivations<Factor>& a, int layer, std::span<float> output) const;
  void run_input_parts(const ChunkActivations<Factor>& a, ChunkGradients<Factor>& g,
                       std::span<const float> output_gradient, std::span<float> input_gradient, WeightParts weights,
                       const Progress& progress);
  void run_head_weight_part(const ChunkActivations<Factor>& a, const ChunkGradients<Factor>& g,
                            const Progress& progress);
  void run_embedding_weight_part(const ChunkActivations<Factor>& a, const ChunkGradients<Factor>& g);
  void check_message(std::size_t elements, bool expected) const;

  const KernelContext& ctx_;
  ChunkShape shape_;
  float gradient_scale_;
  std::vector<LayerWeights<Factor>> layer_weights_;
  HeadWeights<Factor> head_weights_{};
  const StageTensor* token_embedding_ = nullptr;
  const StageTensor* position_embedding_ = nullptr;

  Buffer stash_memory_, deferred_memory_, shared_memory_;
  Bytes slot_bytes_{}, deferred_slot_bytes_{};
  Slots slots_, deferred_slots_;
  std::vector<ChunkActivations<Factor>> stash_;
  std::vector<ChunkGradients<Factor>> deferred_;  ///< between input and weight part
  ChunkGradients<Factor> shared_;                 ///< of a whole backward
  Scratch scratch_{};
  Accumulate head_gradient_ = Accumulate::no;
};

}  // namespace pipefill
