// The tokens of one step of one replica, read when a stage first asks for them. First and last stage read the same
// samples by themselves, for the order is a pure function of the step.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/id.hpp"
#include "comm/process_layout.hpp"
#include "data/token_data.hpp"
#include "model/stage.hpp"

namespace pipefill {

/// How a step's global batch is divided: R replicas x M microbatches x B sequences of T tokens.
struct BatchShape {
  int replicas = 1;
  int microbatches = 1;
  int microbatch_size = 1;
  int context = 1;

  std::int64_t samples_per_step() const { return static_cast<std::int64_t>(replicas) * microbatches * microbatch_size; }
  std::int64_t tokens_per_step() const { return samples_per_step() * context; }
  /// First sample of a microbatch, counted from `first_of_step`.
  std::int64_t first_sample(std::int64_t first_of_step, ReplicaId replica, MicrobatchId microbatch) const {
    return first_of_step +
           (static_cast<std::int64_t>(replica.value) * microbatches + microbatch.value) * microbatch_size;
  }
};

/// Reads one sample of T+1 tokens: TokenData::read_training or read_validation.
using SampleReader = std::function<void(std::int64_t sample, std::span<std::int32_t> tokens)>;

class TokenBatch {
 public:
  TokenBatch(BatchShape shape, ReplicaId replica, SampleReader read);

  /// Forgets what was read; `first_sample` is the first one of the step's global batch.
  void begin_step(std::int64_t first_sample);
  bool is_loaded(MicrobatchId microbatch) const { return loaded_[static_cast<std::size_t>(microbatch.value)]; }
  /// (B,T) inputs and targets; reads them at the first call.
  StageTokens tokens(MicrobatchId microbatch);

 private:
  BatchShape shape_;
  ReplicaId replica_;
  SampleReader read_;
  std::int64_t first_sample_ = 0;
  std::vector<bool> loaded_;
  std::vector<std::int32_t> inputs_, targets_;  // (M,B,T)
  std::vector<std::int32_t> sample_;            // (T+1)
};

}  // namespace pipefill
