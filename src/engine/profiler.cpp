#include "engine/profiler.hpp"

#include <algorithm>
#include <utility>

namespace pipefill {

void RecentDurations::add(Nanoseconds sample) { samples_[count_++ % samples_.size()] = sample; }

Nanoseconds RecentDurations::median() const {
  if (size() == 0) return Nanoseconds{0};
  auto sorted = samples_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(size()));
  return *middle;
}

Nanoseconds RecentDurations::longest() const {
  return *std::max_element(samples_.begin(), samples_.end());  // unused samples are zero
}

void InstructionDuration::end_step() {
  if (count_ > 0) steps_.add(this_step_ / count_);
  this_step_ = Nanoseconds{0}, count_ = 0;
}

Nanoseconds Profiler::end_step(Nanoseconds step_time) {
  steps_.add(step_time);
  for (auto& [chunk, times] : chunks_)
    for (InstructionDuration* one : {&times.forward, &times.backward, &times.backward_input, &times.backward_weight})
      one->end_step();
  optimizer_.add(std::exchange(optimizer_this_step_, Nanoseconds{0}));
  return std::exchange(bubbles_this_step_, Nanoseconds{0});
}

ChunkCost Profiler::chunk_cost(ModelChunkId chunk) const {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) return {};
  const ChunkDurations& times = found->second;
  ChunkCost cost;
  cost.forward = times.forward.median();
  cost.backward_input = times.backward.median() + times.backward_input.median();
  cost.backward_weight = times.backward_weight.median();
  return cost;
}

}  // namespace pipefill
