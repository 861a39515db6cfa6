// The sample behind the quantiles: Vitter's algorithm R (ACM TOMS 11, 1985) with a fixed seed.
#include "trace/distribution.hpp"

#include <algorithm>
#include <cmath>

namespace pipefill {
void Distribution::add(std::int64_t value) {
  ++count_;
  sum_ += static_cast<double>(value);
  if (sample_.size() < kExact) {
    sample_.push_back(value);
    sorted_ = false;
    return;
  }
  const std::uint64_t place = random_.below(static_cast<std::uint64_t>(count_));
  if (place < kExact) {
    sample_[place] = value;
    sorted_ = false;
  }
}

double Distribution::quantile(double q) const {
  if (sample_.empty()) return 0;
  if (!sorted_) {
    std::sort(sample_.begin(), sample_.end());
    sorted_ = true;
  }
  const double place = std::clamp(q, 0.0, 1.0) * static_cast<double>(sample_.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sample_.size() - 1);
  const double share = place - static_cast<double>(below);
  return static_cast<double>(sample_[below]) * (1 - share) + static_cast<double>(sample_[above]) * share;
}

}  // namespace pipefill
