// How many microbatches of a chunk a stage holds at once: what the activation stash must have room for.
#pragma once

#include "schedule/schedule.hpp"

namespace pipefill {

struct InFlight {
  int activations = 0;       ///< most microbatches between their forward and the end of their backward
  int deferred_weights = 0;  ///< most between BackwardInput and BackwardWeight
};

/// Of one chunk on the stage that runs `program`.
InFlight peak_in_flight(const Program& program, ModelChunkId chunk);

}  // namespace pipefill
