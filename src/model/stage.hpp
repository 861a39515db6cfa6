// A stage: the chunks of the model that one rank holds, with their parameters, gradients and activation stash. It
// computes; it neither sends nor receives nor knows the schedule.
//
// Bits: for one microbatch size and thread count, losses and gradients are the same however the model is cut, and
// whenever the weight parts of each chunk run in ascending microbatch order. backward is backward_input then
// backward_weight with the same calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/id.hpp"
#include "base/units.hpp"
#include "device/device.hpp"
#include "model/layer_cut.hpp"
#include "model/model_shape.hpp"
#include "model/parameters.hpp"

namespace pipefill {

struct StageSetup {
  ModelShape shape;
  LayerCut cut;                      ///< of the whole model
  std::vector<ModelChunkId> chunks;  ///< those held here, ascending, at least one
  int microbatch_size = 1;           ///< B; sequences have the full context T
  /// Factor of every token's loss gradient: 1 / (B T M R), so that gradients of a step are those of its mean loss.
  double gradient_scale = 1;
  std::vector<int> slots;         ///< per held chunk: most microbatches between forward and the end of backward
  std::vector<int> weight_slots;  ///< per held chunk: most between backward_input and backward_weight; empty: none
  std::uint64_t seed = 1;         ///< of the initial parameters
};

/// Called between layers and between the pieces of the logits, so that messages progress while the stage computes.
/// Must not call back into the stage.
using Progress = std::function<void()>;

/// (B,T) token ids, 0 <= id < V (the data source has checked). Chunk 0 reads inputs, the last chunk targets; a chunk
/// that is neither ignores both.
struct StageTokens {
  std::span<const std::int32_t> inputs;
  std::span<const std::int32_t> targets;
};

/// training: activations stay in a stash slot until the backward. validation: only the loss remains.
enum class ForwardMode { training, validation };

/// One tensor as this stage holds it, in table order. Spans stay valid for the stage's life.
struct StageTensor {
  TensorSpec spec;
  std::span<float> values;    ///< fp32 master, all rows
  std::span<float> gradient;  ///< sum over the step's microbatches; the tied embedding: of this stage's side, see below
};

class Stage {
 public:
  /// Allocates everything, once, and initialises the parameters. The device outlives the stage.
  Stage(const StageSetup& setup, Device& device);
  ~Stage();
  Stage(Stage&&) noexcept;

  const StageSetup& setup() const;
  const ParameterTable& table() const;  ///< of the whole model

  /// Size of a message between stages: the (B,T,C) fp32 residual stream, or its gradient.
  std::int64_t message_elements() const;

  /// Before the first forward of a step: gradients become those of no microbatch, bf16 copies follow the parameters.
  /// Also before a validation that follows an update or a change of parameters.
  void begin_step();

  /// Chunk 0 takes no input, the last chunk gives no output (empty spans); else (B,T,C). Output may not overlap input.
  /// Throws a contract Error when more microbatches are in flight than slots.
  void forward(ModelChunkId chunk, MicrobatchId microbatch, const StageTokens& tokens, std::span<const float> input,
               std::span<float> output, const Progress& between_layers, ForwardMode mode = ForwardMode::training);

  /// Sum of the microbatch's token losses in nats, in token order, from the last chunk's latest forward of it.
  double loss(MicrobatchId microbatch) const;

  /// output_gradient is empty on the last chunk, input_gradient on chunk 0. With weight_slots of 0 only backward may be
  /// called.
  void backward_input(ModelChunkId chunk, MicrobatchId microbatch, std::span<const float> output_gradient,
                      std::span<float> input_gradient, const Progress& between_layers);
  void backward_weight(ModelChunkId chunk, MicrobatchId microbatch, const Progress& between_layers);
  void backward(ModelChunkId chunk, MicrobatchId microbatch, std::span<const float> output_gradient,
                std::span<float> input_gradient, const Progress& between_layers);

  /// Tensors held here, in table order; a tied embedding once, also where one stage holds both sides.
  std::span<const StageTensor> tensors() const;
  const StageTensor* find(std::string_view name) const;

  /// Tied embedding only, empty spans otherwise. The look-up's and the head's gradients live apart and are added once a
  /// step, look-up + head, after all microbatches (and replicas). A stage with one side has it in `own`, swaps it with
  /// the other stage's (comm/tied_exchange) and leaves the sum there; `other` is empty. On a stage with both, `own` is
  /// the look-up's and `other` the head's. `own` is always the tensor's `gradient` span.
  struct TiedGradient {
    std::span<float> own;
    std::span<float> other;
    bool other_is_remote = false;
  };
  TiedGradient tied_gradient();
  /// Forms look-up + head in `own` where this stage has both sides, also with P=1; no effect elsewhere. Once a step,
  /// before norm and update.
  void add_tied_gradients();

  /// Stash of microbatches in flight now; zero between steps.
  Bytes activation_bytes_in_use() const;
  /// Stash allocated: all slots.
  Bytes activation_bytes_reserved() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pipefill
