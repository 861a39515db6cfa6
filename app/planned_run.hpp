// What a deck will do, computed without MPI, device or data: layers per stage, schedule, predicted times and memory.
#pragma once

#include <vector>

#include "config/run_plan.hpp"
#include "model/cost.hpp"
#include "schedule/cost_model.hpp"
#include "schedule/timeline.hpp"

namespace pipefill {

struct PlannedRun {
  RunPlan plan;     ///< what train would run
  CostModel costs;  ///< from FLOPs at kNominalRate; messages, reductions and optimizer take no time
  Timeline timeline;
  std::vector<ChunkMemory> memory;  ///< by chunk; moments are the largest replica's share
  Bytes limit;                      ///< of a rank: device.memory, or its share of this host's memory
  bool limit_from_deck = false;
};

/// FLOP/s that turn FLOPs into durations. Any other value would change no fraction and no drawing.
constexpr double kNominalRate = 1e11;

/// `config` has parallel.stages filled in (validate_for_ranks). DeckError for a vocabulary that only the data knows and
/// for layers that cannot be cut.
PlannedRun predict_run(const RunConfig& config);

}  // namespace pipefill
