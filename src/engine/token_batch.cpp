#include "engine/token_batch.hpp"

#include <algorithm>

namespace pipefill {

TokenBatch::TokenBatch(BatchShape shape, ReplicaId replica, SampleReader read)
    : shape_(shape),
      replica_(replica),
      read_(std::move(read)),
      loaded_(static_cast<std::size_t>(shape.microbatches)),
      inputs_(static_cast<std::size_t>(shape.tokens_per_step() / shape.replicas)),
      targets_(inputs_.size()),
      sample_(static_cast<std::size_t>(shape.context) + 1) {}

void TokenBatch::begin_step(std::int64_t first_sample) {
  first_sample_ = first_sample;
  std::fill(loaded_.begin(), loaded_.end(), false);
}

StageTokens TokenBatch::tokens(MicrobatchId microbatch) {
  const auto index = static_cast<std::size_t>(microbatch.value);
  const auto context = static_cast<std::size_t>(shape_.context);
  const auto sequences = static_cast<std::size_t>(shape_.microbatch_size);
  const std::size_t begin = index * sequences * context;
  if (!loaded_[index]) {
    const std::int64_t first = shape_.first_sample(first_sample_, replica_, microbatch);
    for (std::size_t b = 0; b < sequences; ++b) {
      read_(first + static_cast<std::int64_t>(b), sample_);
      const auto row = static_cast<std::ptrdiff_t>(begin + b * context);
      std::copy(sample_.begin(), sample_.end() - 1, inputs_.begin() + row);
      std::copy(sample_.begin() + 1, sample_.end(), targets_.begin() + row);
    }
    loaded_[index] = true;
  }
  return {std::span(inputs_).subspan(begin, sequences * context),
          std::span(targets_).subspan(begin, sequences * context)};
}

}  // namespace pipefill
