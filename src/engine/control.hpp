// What all ranks do after a step, agreed by one 8-byte all-reduce (maximum) a step: the strongest request wins, and
// with it travels the longest predicted checkpoint time, so that every rank takes the same decision.
#pragma once

#include <cstdint>

#include "base/units.hpp"

namespace pipefill {

enum class ControlRequest : std::int64_t {
  none = 0,
  checkpoint = 1,  ///< save and go on
  checkpoint_and_stop = 2,
  terminate = 3,  ///< stop; save only if the predicted time fits the grace
};

struct Control {
  ControlRequest request = ControlRequest::none;
  Nanoseconds checkpoint_time{0};  ///< predicted, the slowest rank's

  bool stops() const { return request >= ControlRequest::checkpoint_and_stop; }

  std::int64_t encode() const {
    constexpr std::int64_t kLongest = (std::int64_t{1} << 40) - 1;
    const std::int64_t us = checkpoint_time.count() / 1000;
    return (static_cast<std::int64_t>(request) << 40) | (us < kLongest ? us : kLongest);
  }
  static Control decode(std::int64_t word) {
    return {static_cast<ControlRequest>(word >> 40), Nanoseconds{(word & ((std::int64_t{1} << 40) - 1)) * 1000}};
  }
};

}  // namespace pipefill
