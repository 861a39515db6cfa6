// Order: everything about a run that follows from the deck and the number of ranks alone. Pure; the same on all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/process_layout.hpp"
#include "config/run_config.hpp"
#include "engine/fill_session.hpp"
#include "engine/trainer.hpp"
#include "model/layer_cut.hpp"
#include "model/model_shape.hpp"
#include "model/stage.hpp"
#include "schedule/schedule.hpp"

namespace pipefill {

struct RunPlan {
  ProcessLayout layout;
  ModelShape shape;
  LayerCut cut;
  Schedule training;    ///< with communication and bubbles, valid
  Schedule evaluation;  ///< forward only
  BatchShape batch;

  std::vector<ModelChunkId> chunks_of(StageId stage) const;
};

/// `config` has parallel.stages filled in (validate_for_ranks). Throws DeckError and ScheduleError.
RunPlan plan_run(const RunConfig& config, int data_vocab);

StageSetup stage_setup(const RunPlan& plan, StageId stage, std::uint64_t seed);

/// What a rank of this stage will allocate, counted before any of it is.
Bytes planned_memory(const RunPlan& plan, const StageSetup& setup, OptimizerShard shard);

/// All but `started`.
TrainerSettings trainer_settings(const RunConfig& config, const RunPlan& plan, ReplicaId replica);

/// `wait`: how the rank waits in bubbles that are not filled. `threads`: of the rank, and of its fill jobs.
FillSettings fill_settings(const RunConfig& config, const RunPlan& plan, WaitMethod wait, int threads);

}  // namespace pipefill
