// Runs the pieces of a training step on a job's state: the arithmetic of model/ (block, head, adamw) in chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "data/token_data.hpp"
#include "device/device.hpp"
#include "fill_jobs/train_state.hpp"
#include "model/learning_rate.hpp"

namespace pipefill {

struct TrainSettings {
  TrainSizes sizes;
  LearningRateSchedule rate;
  double beta1 = 0.9, beta2 = 0.95, weight_decay = 0.1;
  double clip = 1.0;  ///< global norm; 0: none
};

class TrainStep {
 public:
  /// All outlive it. Scratch memory comes from the device.
  TrainStep(const ParameterLayout& layout, const TrainSettings& settings, const TokenData& data, Device& device,
            const TrainState& state, std::int64_t norm_pieces);

  /// Bytes it allocates.
  static std::int64_t memory(const ParameterLayout& layout, std::int64_t B);

  /// `step` counts from 1. `index`: of the piece among those of its part, for norm and update. Throws DivergedError
  /// when the loss is no number.
  void run(const TrainPiece& piece, std::int64_t step, std::int64_t index);

 private:
  void embed(const TrainPiece& piece, std::int64_t step);
  void head(const TrainPiece& piece);
  void mlp_input(const TrainPiece& piece);
  void attention_input(const TrainPiece& piece);
  void embedding_weight(const TrainPiece& piece);
  void norm(const TrainPiece& piece, std::int64_t index);
  void update(const TrainPiece& piece, std::int64_t step, std::int64_t index);

  void weight_gradient(const TrainPiece& piece, LinearOffsets at, const float* outputs, std::int64_t stride,
                       const float* inputs, std::int64_t columns);
  void norm_gradient(const TrainPiece& piece, NormOffsets at, const float* gradient, const float* input,
                     const float* mean, const float* rstd);
  float* begin_gradient(const TrainPiece& piece, std::int64_t offset, std::int64_t floats);
  const float* step_gradient(const Range& range);
  const float* parameters() const { return state_.parameters[(step_ - 1) % 2].values; }
  const float* flow_out(int layer) const { return state_.flow[static_cast<std::size_t>(last_ - layer) % 2]; }
  float* flow_in(int layer) const { return state_.flow[static_cast<std::size_t>(last_ - layer + 1) % 2]; }

  const ParameterLayout& layout_;
  const ModelShape& shape_;
  const TrainSettings& settings_;
  const TokenData& data_;
  const KernelContext& ctx_;
  TrainState state_;
  std::int64_t norm_pieces_;
  std::int64_t B_, T_, C_, N_;
  int last_;              ///< layer
  std::size_t step_ = 1;  ///< of the piece at work
  Buffer memory_;
  float* mixed_gradient_;  ///< (N,C)
  float* sum_;             ///< one norm piece's floats
};

}  // namespace pipefill
