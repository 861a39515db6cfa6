// The end of a step on one stage: gradients added over the replicas, the tied embedding's two sides added, the global
// norm known to all, parameters updated. The same sums in the same order on every layout (DESIGN section 1).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/replica_reduction.hpp"
#include "comm/tied_exchange.hpp"
#include "engine/bubble_watch.hpp"
#include "model/adamw.hpp"
#include "model/learning_rate.hpp"
#include "model/stage.hpp"

namespace pipefill {

struct UpdateSettings {
  AdamwSettings adamw;
  LearningRateSchedule learning_rate;
  double clip = 1.0;                                       ///< global norm; 0: no clipping
  std::int64_t tokens_per_step = 1;                        ///< of all replicas
  std::vector<std::vector<ModelChunkId>> chunks_of_stage;  ///< of the whole pipeline, each ascending
};

/// What every rank knows after a step.
struct StepOutcome {
  double loss = 0;           ///< mean over the step's tokens, replicas added in replica order
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  Nanoseconds bubbles{};   ///< of all ranks together, in the step before
  bool fill_news = false;  ///< a rank wants all to meet about fill jobs
};

class StageUpdate {
 public:
  StageUpdate(const UpdateSettings& settings, Stage& stage, RankServices& services, SpanRecorder& spans,
              Profiler& profiler);

  /// Posts the receives of the step's reductions, so that no message meets an unprepared rank.
  void begin_step(std::int64_t step);
  /// The chunk's gradients are final. Does not block.
  void start_reduction(ModelChunkId chunk, std::int64_t step);
  /// Moves reductions along while the stage computes.
  void progress();
  /// Nothing of this rank is under way that its progress would help along.
  bool at_rest();
  /// Where in the program the waits of the update stand.
  void note_slot(BubbleSlot slot);
  /// This rank's bubble time of the step before, to be told to all with the next norm.
  void set_bubbles(Nanoseconds last_step) { my_bubbles_ = last_step; }

  /// The whole of OptimizerStep. Throws DivergedError on every rank at once when loss or norm is not finite; the
  /// parameters are then those before the step.
  /// `inside`: the OptimizerStep's own place, for a second wait at the boundary.
  void run(std::int64_t step, double loss_sum, Bytes free_memory, BubbleSlot inside);

  const StepOutcome& outcome() const { return outcome_; }
  Adamw& adamw() { return adamw_; }

 private:
  /// What a chunk's share of the stage is, tensor by tensor; a tied embedding counts for each chunk that holds a side.
  struct ChunkTensor {
    const StageTensor* tensor;
    std::span<float> gradient;
  };
  std::vector<ChunkTensor> tensors_of(ModelChunkId chunk);
  ReplicaGroup group_of(ModelChunkId chunk);
  void finish_reductions(std::int64_t step, Bytes free_memory);
  void exchange_tied(std::int64_t step, Bytes free_memory);
  void gather_norm(std::int64_t step, double loss_sum, Bytes free_memory, BubbleSlot slot);
  void share_parameters(std::int64_t step);

  UpdateSettings settings_;
  Stage& stage_;
  RankServices& services_;
  SpanRecorder& spans_;
  Profiler& profiler_;
  BubbleWatch bubbles_;
  Adamw adamw_;
  struct ChunkReduction {
    ModelChunkId chunk;
    ReplicaReduction reduction;
  };
  std::vector<ChunkReduction> reductions_;  ///< none with one replica
  std::vector<SliceBroadcast> broadcasts_;  ///< with optimizer.shard, by chunk
  std::optional<TiedExchange> tied_;
  std::vector<std::vector<std::int64_t>> blocks_of_rank_;  ///< norm blocks each rank counts
  BubbleSlot collective_slot_{-1, BubbleClass::collective};
  BubbleSlot boundary_slot_{-1, BubbleClass::step_boundary};
  Nanoseconds my_bubbles_{};
  StepOutcome outcome_;
};

}  // namespace pipefill
