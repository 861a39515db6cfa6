// From a deck to predicted times and memory.
#include "planned_run.hpp"

#include "base/error.hpp"
#include "device/cpu/cpu_device.hpp"

namespace pipefill {
namespace {

/// The vocabulary of the data source, where it is known without reading it.
int data_vocab(const RunConfig& config) {
  if (config.model.vocab != 0 || config.data.source == TokenFormat::synthetic) return config.data.vocab;
  if (config.data.source == TokenFormat::bytes) return kByteVocab;
  throw DeckError(
      "model.vocab: auto comes from the data, which a plan does not read, and it decides the last stage's time and "
      "memory; give it, for instance model.vocab=50257");
}

/// A third of the training FLOPs each for forward, input and weight part: exact for the matrix products.
CostModel predicted_costs(const RunPlan& plan, const std::vector<ChunkMemory>& memory) {
  CostModel costs = uniform_costs(plan.training, Nanoseconds{0}, Nanoseconds{0}, Nanoseconds{0});
  const double tokens = static_cast<double>(plan.batch.microbatch_size) * plan.shape.context;
  for (std::size_t chunk = 0; chunk < memory.size(); ++chunk) {
    const double flops = tokens * training_flops_per_token(plan.shape, plan.cut, {static_cast<int>(chunk)});
    ChunkCost& cost = costs.chunks[chunk];
    cost.forward = cost.backward_input = cost.backward_weight = from_seconds(flops / 3 / kNominalRate);
    cost.activations = memory[chunk].activations;
    const StageId stage = plan.training.stage_of_chunk[chunk];
    costs.stages[static_cast<std::size_t>(stage.value)].fixed += memory[chunk].total(0, 0);
  }
  return costs;
}

}  // namespace

PlannedRun predict_run(const RunConfig& config) {
  PlannedRun run;
  run.plan = plan_run(config, data_vocab(config));
  run.memory = chunk_memories(run.plan.shape, run.plan.cut, run.plan.batch.microbatch_size,
                              config.optimizer.shard ? config.parallel.replicas : 1);
  run.costs = predicted_costs(run.plan, run.memory);
  run.timeline = price(run.plan.training, run.costs);
  run.limit_from_deck = config.device.memory > Bytes{0};
  run.limit = run.limit_from_deck ? config.device.memory : Bytes{host_memory().count / run.plan.layout.ranks()};
  return run;
}

}  // namespace pipefill
