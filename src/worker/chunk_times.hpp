// How long the next chunk will take: the median of the last chunks of its cost class; before there is one, its
// floating point operations at the rate of the others.
#pragma once

#include <pipefill/fill_job.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "base/units.hpp"

namespace pipefill {

class ChunkTimes {
 public:
  Nanoseconds predict(const pipefill_fill_chunk& chunk) const;
  bool measured(const pipefill_fill_chunk& chunk) const { return classes_.contains(chunk.cost_class); }
  void add(const pipefill_fill_chunk& chunk, Nanoseconds time);
  /// What was measured of its class is not believed any more.
  void forget(const pipefill_fill_chunk& chunk) { classes_.erase(chunk.cost_class); }

 private:
  struct Recent {
    std::array<std::int64_t, 15> times_ns = {};
    std::size_t count = 0;  ///< all ever added
  };
  std::map<std::int32_t, Recent> classes_;
  double flops_per_second_ = 2e9;  ///< a slow core, until something was measured
};

}  // namespace pipefill
