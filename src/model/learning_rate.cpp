// The formulas of the learning rate.
#include "model/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pipefill {

double LearningRateSchedule::at(std::int64_t step) const {
  if (step <= warm_up) return peak * static_cast<double>(step) / static_cast<double>(warm_up);
  const double q = final_fraction;
  const auto progress_from = [&](double start) {
    const double rest = static_cast<double>(steps) - start;
    return rest > 0 ? std::min(1.0, (static_cast<double>(step) - start) / rest) : 1.0;
  };
  switch (decay) {
    case LearningRateDecay::constant:
      return peak;
    case LearningRateDecay::linear:
      return peak * (1 - (1 - q) * progress_from(static_cast<double>(warm_up)));
    case LearningRateDecay::cosine: {
      const double x = progress_from(static_cast<double>(warm_up));
      return peak * (q + (1 - q) * 0.5 * (1 + std::cos(std::numbers::pi * x)));
    }
    case LearningRateDecay::wsd: {
      const double start = std::max(static_cast<double>(warm_up), 0.8 * static_cast<double>(steps));
      if (static_cast<double>(step) <= start) return peak;
      return peak * (1 - (1 - q) * std::sqrt(progress_from(start)));
    }
  }
  return peak;
}

}  // namespace pipefill
