// What a stage's instructions and waits took, measured as the run goes: the durations that make a CostModel, and the
// bubble time of each step. Measuring never stops.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "base/id.hpp"
#include "base/units.hpp"
#include "schedule/cost_model.hpp"

namespace pipefill {

/// The last 64 samples of one duration.
class RecentDurations {
 public:
  void add(Nanoseconds sample);
  /// Median of the last samples; zero when there is none.
  Nanoseconds median() const;
  Nanoseconds longest() const;
  std::size_t size() const { return count_ < samples_.size() ? count_ : samples_.size(); }

 private:
  std::array<Nanoseconds, 64> samples_{};
  std::size_t count_ = 0;
};

/// One instruction's duration: the mean over a step's microbatches, of the last 64 steps. So it is of the same steps as
/// the step time, and a disturbed microbatch counts in it as it does there.
class InstructionDuration {
 public:
  void add(Nanoseconds sample) { this_step_ += sample, ++count_; }
  void end_step();
  Nanoseconds median() const { return steps_.median(); }

 private:
  Nanoseconds this_step_{};
  int count_ = 0;
  RecentDurations steps_;
};

class Profiler {
 public:
  void add_forward(ModelChunkId chunk, Nanoseconds time) { chunks_[chunk].forward.add(time); }  ///< data included
  void add_backward(ModelChunkId chunk, Nanoseconds time) { chunks_[chunk].backward.add(time); }
  void add_backward_input(ModelChunkId chunk, Nanoseconds time) { chunks_[chunk].backward_input.add(time); }
  void add_backward_weight(ModelChunkId chunk, Nanoseconds time) { chunks_[chunk].backward_weight.add(time); }
  void add_optimizer(Nanoseconds time) { optimizer_this_step_ += time; }  ///< in parts
  void add_bubble(Nanoseconds time) { bubbles_this_step_ += time; }

  /// Ends a step: returns its bubble time and starts the next one's.
  Nanoseconds end_step(Nanoseconds step_time);

  Nanoseconds step_time() const { return steps_.median(); }
  Nanoseconds longest_step() const { return steps_.longest(); }  ///< of the last 64: about their p99
  Nanoseconds optimizer() const { return optimizer_.median(); }
  /// Medians; a full backward that was never split counts as its input part.
  ChunkCost chunk_cost(ModelChunkId chunk) const;

 private:
  struct ChunkDurations {
    InstructionDuration forward, backward, backward_input, backward_weight;
  };
  std::map<ModelChunkId, ChunkDurations> chunks_;
  RecentDurations optimizer_;
  RecentDurations steps_;
  Nanoseconds bubbles_this_step_{};
  Nanoseconds optimizer_this_step_{};
};

}  // namespace pipefill
