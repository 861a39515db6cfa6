#include "worker/chunk_times.hpp"

#include <algorithm>

namespace pipefill {

Nanoseconds ChunkTimes::predict(const pipefill_fill_chunk& chunk) const {
  const auto found = classes_.find(chunk.cost_class);
  if (found == classes_.end()) return from_seconds(chunk.flops / flops_per_second_);
  std::array<std::int64_t, 15> sorted = found->second.times_ns;
  const std::size_t size = std::min(found->second.count, sorted.size());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(size / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(size));
  return Nanoseconds{*middle};
}

void ChunkTimes::add(const pipefill_fill_chunk& chunk, Nanoseconds time) {
  Recent& recent = classes_[chunk.cost_class];
  recent.times_ns[recent.count++ % recent.times_ns.size()] = time.count();
  if (chunk.flops > 0 && time.count() > 0) flops_per_second_ = chunk.flops / to_seconds(time);
}

}  // namespace pipefill
