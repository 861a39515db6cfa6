// The median of a few measured values, and an interval that holds the true median whatever their distribution.
#pragma once

#include <cstdint>
#include <span>

namespace pipefill {

struct MedianInterval {
  double median = 0;  ///< 0 without values
  double low = 0;     ///< -infinity where there are too few values (below six for 95 %)
  double high = 0;    ///< infinity likewise
  std::int64_t count = 0;
};

/// The exact interval of order statistics: the largest k with P(Binomial(n, 1/2) < k) <= (1 - confidence) / 2 gives
/// [x_(k), x_(n+1-k)] (David and Nagaraja, Order Statistics, 3rd ed., section 7.1).
MedianInterval median_interval(std::span<const double> values, double confidence = 0.95);

}  // namespace pipefill
