// One instruction of a stage's program, as plain data. Builders emit compute only; passes add communication and
// bubbles.
#pragma once

#include <variant>

#include "base/id.hpp"

namespace pipefill {

// Compute. `Backward` is by definition BackwardInput then BackwardWeight of the same chunk and microbatch.
struct Forward {
  ModelChunkId chunk;
  MicrobatchId microbatch;
  bool operator==(const Forward&) const = default;
};
struct Backward {
  ModelChunkId chunk;
  MicrobatchId microbatch;
  bool operator==(const Backward&) const = default;
};
struct BackwardInput {
  ModelChunkId chunk;
  MicrobatchId microbatch;
  bool operator==(const BackwardInput&) const = default;
};
struct BackwardWeight {
  ModelChunkId chunk;
  MicrobatchId microbatch;
  bool operator==(const BackwardWeight&) const = default;
};

// Communication. `chunk` is always the chunk on this stage: the one whose output is sent or whose input is received.
// Sends never block. A receive's place means "posted here at the latest"; it is waited for at its consumer.
struct SendActivation {
  ModelChunkId chunk;
  MicrobatchId microbatch;
  StageId peer;
  bool operator==(const SendActivation&) const = default;
};
struct RecvActivation {
  ModelChunkId chunk;
  MicrobatchId microbatch;
  StageId peer;
  bool operator==(const RecvActivation&) const = default;
};
struct SendGradient {
  ModelChunkId chunk;
  MicrobatchId microbatch;
  StageId peer;
  bool operator==(const SendGradient&) const = default;
};
struct RecvGradient {
  ModelChunkId chunk;
  MicrobatchId microbatch;
  StageId peer;
  bool operator==(const RecvGradient&) const = default;
};

/// Start adding this chunk's gradients over the replicas; does not block.
struct ReduceGradients {
  ModelChunkId chunk;
  bool operator==(const ReduceGradients&) const = default;
};
/// Wait for the reductions and the global norm, then update the parameters.
struct OptimizerStep {
  bool operator==(const OptimizerStep&) const = default;
};

/// Why a stage waits. warm_up: before a forward, no backward done yet. cool_down: before a backward, no forward left.
/// steady: between. collective: for the replicas' gradients. step_boundary: for the other stages to end the step.
enum class BubbleClass { warm_up, steady, cool_down, collective, step_boundary };

/// The stage has nothing of the main job to run until the input of the next instruction arrives. May last zero time.
struct Bubble {
  BubbleClass why = BubbleClass::steady;
  bool operator==(const Bubble&) const = default;
};

using Instruction = std::variant<Forward, Backward, BackwardInput, BackwardWeight, SendActivation, RecvActivation,
                                 SendGradient, RecvGradient, ReduceGradients, OptimizerStep, Bubble>;

/// One lambda per kind, for std::visit: a forgotten kind does not compile.
template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

}  // namespace pipefill
