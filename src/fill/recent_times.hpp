// The last few of a series of times, with their quantiles at any moment: what the bubble model and the chunk costs are
// made of. Fixed size, never allocates, forgets by itself.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/contract.hpp"
#include "base/units.hpp"

namespace pipefill {

class RecentTimes {
 public:
  static constexpr int kMost = 32;

  /// Takes the place of the oldest when there are kMost already. At most 2 * kMost moves of 8 bytes.
  void add(Nanoseconds time) {
    const auto begin = sorted_.begin();
    if (size_ == kMost) {
      const Nanoseconds oldest = arrived_[static_cast<std::size_t>(next_)];
      const auto place = std::lower_bound(begin, begin + size_, oldest);
      std::move(place + 1, begin + size_, place);
      --size_;
    }
    const auto place = std::upper_bound(begin, begin + size_, time);
    std::move_backward(place, begin + size_, begin + size_ + 1);
    *place = time;
    ++size_;
    arrived_[static_cast<std::size_t>(next_)] = time;
    next_ = (next_ + 1) % kMost;
  }

  void clear() { size_ = 0, next_ = 0; }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// The largest of the times that at most the share `q` (0..1) of the others lie below: never between two times, so
  /// that a quantile below 1 is untouched by how far off the longest is. Zero when empty.
  Nanoseconds quantile(double q) const {
    PF_EXPECT(q >= 0 && q <= 1);
    if (size_ == 0) return Nanoseconds{0};
    return sorted_[static_cast<std::size_t>(std::floor(q * (size_ - 1)))];
  }
  Nanoseconds median() const { return quantile(0.5); }

  /// Those longer than `elapsed`, ascending.
  std::span<const Nanoseconds> beyond(Nanoseconds elapsed) const {
    const auto first = std::upper_bound(sorted_.begin(), sorted_.begin() + size_, elapsed);
    return {first, sorted_.begin() + size_};
  }

 private:
  std::array<Nanoseconds, kMost> arrived_{};  ///< ring, in the order of arrival
  std::array<Nanoseconds, kMost> sorted_{};   ///< the same times, ascending
  int size_ = 0;
  int next_ = 0;  ///< where the next one goes in the ring; the oldest when it is full
};

}  // namespace pipefill
