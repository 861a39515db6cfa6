// What instructions cost, as plain data: from a formula, a file or measurements. A schedule and a cost model give a
// timeline (timeline.hpp).
#pragma once

#include <vector>

#include "base/units.hpp"
#include "schedule/schedule.hpp"

namespace pipefill {

/// Of one model chunk and one microbatch, except `reduction` (once per step).
struct ChunkCost {
  Nanoseconds forward{};
  Nanoseconds backward_input{};
  Nanoseconds backward_weight{};
  Nanoseconds reduction{};  ///< of the chunk's gradients over the replicas
  Bytes activations;        ///< held from the forward to the end of the backward (its weight part when split)

  Nanoseconds backward() const { return backward_input + backward_weight; }
};

struct StageCost {
  Nanoseconds optimizer{};
  Bytes fixed;  ///< parameters, gradients, optimizer state, scratch: what is there all the time
};

struct CostModel {
  std::vector<ChunkCost> chunks;  ///< by model chunk, size P*v
  std::vector<StageCost> stages;  ///< by stage, size P
  Nanoseconds hop{};              ///< from the end of a send to the arrival on another stage
};

/// Every chunk the same, optimizer, reduction, hop and memory zero.
inline CostModel uniform_costs(const Schedule& schedule, Nanoseconds forward, Nanoseconds backward_input,
                               Nanoseconds backward_weight) {
  ChunkCost chunk;
  chunk.forward = forward, chunk.backward_input = backward_input, chunk.backward_weight = backward_weight;
  return {std::vector<ChunkCost>(schedule.stage_of_chunk.size(), chunk),
          std::vector<StageCost>(schedule.programs.size()), Nanoseconds{0}};
}

}  // namespace pipefill
