// The learning rate of a step: linear warm-up, then constant, linear, cosine or warm-up-stable-decay (as llm.c).
#pragma once

#include <cstdint>

namespace pipefill {

enum class LearningRateDecay { constant, linear, cosine, wsd };

struct LearningRateSchedule {
  double peak = 3e-3;
  double final_fraction = 0.1;  ///< of the peak, reached at the last step (constant: ignored)
  std::int64_t warm_up = 0;     ///< steps
  std::int64_t steps = 1;       ///< of the whole run
  LearningRateDecay decay = LearningRateDecay::constant;

  /// Rate of the update that completes `step`, 1..steps; later steps keep the last rate. Warm-up: peak step / warm_up.
  /// After it, with x = (step - warm_up) / (steps - warm_up): linear 1 - (1 - q) x; cosine q + (1 - q) (1 + cos(pi x))
  /// / 2; wsd: 1 up to the last fifth of the steps, then 1 - (1 - q) sqrt(progress in it), q = final_fraction.
  double at(std::int64_t step) const;
};

}  // namespace pipefill
