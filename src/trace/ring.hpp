// A queue of fixed size between two threads: one pushes, one pops; neither ever waits for the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "base/contract.hpp"

namespace pipefill {

/// All memory is taken, and touched, at construction: a page's first touch would otherwise fall into a step.
template <class T>
class Ring {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// `capacity` is a power of two.
  explicit Ring(std::size_t capacity) : mask_(capacity - 1), slots_(new T[capacity]()) {
    PF_EXPECT(capacity > 0 && (capacity & mask_) == 0);
  }

  /// The pushing thread only. False when full: nothing is stored.
  bool push(const T& value) noexcept {
    const std::size_t at = pushed_.load(std::memory_order_relaxed);
    if (at - popped_seen_ > mask_) {
      popped_seen_ = popped_.load(std::memory_order_acquire);
      if (at - popped_seen_ > mask_) return false;
    }
    slots_[at & mask_] = value;
    pushed_.store(at + 1, std::memory_order_release);
    return true;
  }

  /// The popping thread only: hands at most `limit` values, oldest first, to `take`; returns how many.
  template <class Take>
  std::size_t pop(std::size_t limit, Take&& take) {
    const std::size_t first = popped_.load(std::memory_order_relaxed);
    const std::size_t waiting = pushed_.load(std::memory_order_acquire) - first;
    const std::size_t count = waiting < limit ? waiting : limit;
    for (std::size_t i = 0; i < count; ++i) take(slots_[(first + i) & mask_]);
    popped_.store(first + count, std::memory_order_release);
    return count;
  }

 private:
  std::size_t mask_;
  std::unique_ptr<T[]> slots_;
  // The two ends on cache lines of their own, so that a push does not wait for a line the other thread writes.
  alignas(64) std::atomic<std::size_t> pushed_{0};
  std::size_t popped_seen_ = 0;  ///< by the pushing thread, some time ago
  alignas(64) std::atomic<std::size_t> popped_{0};
};

}  // namespace pipefill
