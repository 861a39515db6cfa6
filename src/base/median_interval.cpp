// The orders that bound a median, from the binomial distribution.
#include "base/median_interval.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace pipefill {
namespace {

/// Largest k with P(Binomial(n, 1/2) < k) <= tail; 0 when there is none.
std::int64_t order_of_bound(std::int64_t n, double tail) {
  double log_term = -static_cast<double>(n) * std::log(2.0), below = 0;  // P(Binomial = k), P(Binomial < k)
  for (std::int64_t k = 0; k < n; ++k) {
    below += std::exp(log_term);
    if (below > tail) return k;
    log_term += std::log(static_cast<double>(n - k) / static_cast<double>(k + 1));
  }
  return 0;
}

}  // namespace

MedianInterval median_interval(std::span<const double> values, double confidence) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (values.empty()) return {0, -kInfinity, kInfinity, 0};
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  MedianInterval made;
  made.count = static_cast<std::int64_t>(n);
  made.median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  const auto k = static_cast<std::size_t>(order_of_bound(made.count, (1 - confidence) / 2));
  made.low = k == 0 ? -kInfinity : sorted[k - 1];
  made.high = k == 0 ? kInfinity : sorted[n - k];
  return made;
}

}  // namespace pipefill
