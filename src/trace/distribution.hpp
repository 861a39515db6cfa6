// Quantiles of a stream in bounded memory: exact up to kExact values, from a uniform sample of that size beyond.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.hpp"

namespace pipefill {

class Distribution {
 public:
  static constexpr std::size_t kExact = 8192;

  void add(std::int64_t value);
  std::int64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double sum() const { return sum_; }

  /// The value below which the share `q` (0..1) of the values lies, linearly between neighbours: NumPy's default,
  /// Hyndman and Fan (1996), definition 7. 0 of an empty distribution. Beyond kExact values the rank of the answer has
  /// a standard error of sqrt(q (1 - q) / kExact), that is 0.6 % for the median and 0.1 % for p99.
  double quantile(double q) const;

 private:
  std::int64_t count_ = 0;
  double sum_ = 0;
  RandomStream random_{kGoldenGamma};  ///< fixed: the same stream gives the same figures
  mutable bool sorted_ = true;
  mutable std::vector<std::int64_t> sample_;
};

}  // namespace pipefill
