// A whole training run on whatever transport: the same body serves threads over loopback and ranks under mpirun.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/loopback_transport.hpp"
#include "config/run_config.hpp"
#include "config/run_plan.hpp"
#include "engine/trainer.hpp"
#include "storage/hdf5_thread.hpp"

namespace pipefill::testing_support {

/// What a run leaves: losses and norms of every step (rank 0's metrics.jsonl), and every tensor and moment by name.
struct PipelineResult {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<std::string, std::vector<float>> tensors;  ///< "parameters/...", "moment1/...", "moment2/..."
  double validation_loss = 0;
};

/// A small model that steps in milliseconds: L=3 C=32 H=2 T=16 V=64, synthetic data, two threads' worth of work at
/// most.
RunConfig small_run(int stages, int replicas, int microbatches, const std::string& schedule);

/// Called on every rank when its steps are done.
using AtEnd = std::function<void(Trainer&, const RunPlan&)>;

/// One rank's part; `config.run.directory` is used as a run directory (metrics, checkpoints), and the run goes on from
/// the newest checkpoint in it. `tensors` holds what this rank's stage holds (a shard's moments: only owned rows differ
/// from zero).
PipelineResult run_rank(const RunConfig& config, Transport& transport, Hdf5Thread& hdf5, const AtEnd& at_end = {});

/// All ranks as threads of this process, results joined.
PipelineResult run_over_loopback(const RunConfig& config, Hdf5Thread& hdf5, LoopbackOptions options = {});

}  // namespace pipefill::testing_support
