// Walks a stage's program: order, and nothing else, comes from the schedule. Dependencies: a forward needs the
// activation of the chunk before it, a backward the gradient of the chunk behind it; both were posted long ago and are
// waited for here, where the program says Bubble. Sends leave as soon as their payload is complete.
#pragma once

#include "engine/bubble_watch.hpp"
#include "engine/links.hpp"
#include "engine/token_batch.hpp"
#include "engine/update.hpp"
#include "model/stage.hpp"
#include "schedule/schedule.hpp"

namespace pipefill {

/// train: activations stay for the backward, spans and durations feed the profiler. evaluate: forward only.
enum class ExecutorMode { train, evaluate };

class Executor {
 public:
  /// `schedule` has communication and bubbles. `update` serves ReduceGradients and OptimizerStep; null to evaluate.
  Executor(const Schedule& schedule, Stage& stage, TokenBatch& batch, StageUpdate* update, RankServices& services,
           SpanRecorder& spans, Profiler& profiler, ExecutorMode mode);

  /// One step (or one evaluation batch). TransportError when a peer is lost, DivergedError from the update.
  void run(std::int64_t step);

  /// Sum of the token losses of the last run's microbatches, in microbatch order; 0 where the last chunk is not.
  double loss_sum() const;
  /// The same one by one.
  std::span<const double> losses() const { return losses_; }
  bool holds_last_chunk() const { return schedule_.stage_of_chunk.back() == services_.stage(); }

  // One overload per kind of instruction, for std::visit.
  void operator()(const Forward& forward);
  void operator()(const Backward& backward);
  void operator()(const BackwardInput& backward);
  void operator()(const BackwardWeight& backward);
  void operator()(const SendActivation& send);
  void operator()(const RecvActivation& receive);
  void operator()(const SendGradient& send);
  void operator()(const RecvGradient& receive);
  void operator()(const ReduceGradients& reduce);
  void operator()(const OptimizerStep&);
  void operator()(const Bubble& bubble);

 private:
  /// Input of `chunk`, waited for; empty where the chunk has none on this side.
  std::span<const float> input(Channel channel, ModelChunkId chunk, MicrobatchId microbatch);
  /// Where `chunk` writes what `consumer` will read; empty where there is no consumer.
  std::span<float> output(Channel channel, ModelChunkId consumer, MicrobatchId microbatch);
  void release_input(Channel channel, ModelChunkId chunk, MicrobatchId microbatch);
  /// Hands the output over when its consumer is on this stage too; otherwise a Send follows in the program.
  void pass_on(Channel channel, ModelChunkId consumer, MicrobatchId microbatch);
  bool exists(ModelChunkId chunk) const { return chunk.value >= 0 && chunk.value < schedule_.chunks(); }
  void announce(ActivityKind kind, ModelChunkId chunk, MicrobatchId microbatch);
  Nanoseconds close(EventKind kind, ModelChunkId chunk, MicrobatchId microbatch);
  Bytes free_memory() const;
  void backward_input(EventKind kind, ModelChunkId chunk, MicrobatchId microbatch);

  const Schedule& schedule_;
  const Program& program_;
  Stage& stage_;
  TokenBatch& batch_;
  StageUpdate* update_;
  RankServices& services_;
  SpanRecorder& spans_;
  Profiler& profiler_;
  ExecutorMode mode_;
  BubbleWatch bubbles_;
  StageLinks links_;
  Progress progress_;
  BubbleSlot slot_;  ///< of the Bubble last passed
  int position_ = 0;
  std::vector<double> losses_;  ///< by microbatch
};

}  // namespace pipefill
