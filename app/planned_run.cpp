// From a deck to predicted times and memory.
#include "planned_run.hpp"

#include "base/error.hpp"
#include "config/parts.hpp"
#include "device/cpu/cpu_device.hpp"
#include "schedule/bubbles.hpp"
#include "schedule/build.hpp"
#include "schedule/communication.hpp"
#include "schedule/validate.hpp"

namespace pipefill {
namespace {

/// The vocabulary of the data source, where it is known without reading it.
int data_vocab(const RunConfig& config) {
  if (config.model.vocab != 0 || config.data.source == TokenFormat::synthetic) return config.data.vocab;
  if (config.data.source == TokenFormat::bytes) return 256;
  throw DeckError(
      "model.vocab: auto comes from the data, which a plan does not read, and it decides the last stage's time and "
      "memory; give it, for instance model.vocab=50257");
}

/// A third of the training FLOPs each for forward, input and weight part: exact for the matrix products.
CostModel predicted_costs(const PlannedRun& run, int microbatch_size) {
  CostModel costs = uniform_costs(run.schedule, Nanoseconds{0}, Nanoseconds{0}, Nanoseconds{0});
  const double tokens = static_cast<double>(microbatch_size) * run.shape.context;
  for (int chunk = 0; chunk < run.schedule.chunks(); ++chunk) {
    const ModelChunkId id{chunk};
    const double flops = tokens * training_flops_per_token(run.shape, run.cut, id);
    const ChunkMemory& memory = run.memory[static_cast<std::size_t>(chunk)];
    ChunkCost& cost = costs.chunks[static_cast<std::size_t>(chunk)];
    cost.forward = cost.backward_input = cost.backward_weight = from_seconds(flops / 3 / kNominalRate);
    cost.activations = memory.activations;
    const StageId stage = run.schedule.stage_of_chunk[static_cast<std::size_t>(chunk)];
    costs.stages[static_cast<std::size_t>(stage.value)].fixed += memory.total(0, 0);
  }
  return costs;
}

}  // namespace

PlannedRun plan_run(const RunConfig& config) {
  const int stages = config.parallel.stages, replicas = config.parallel.replicas;
  PlannedRun run;
  run.shape = model_shape(config, data_vocab(config));
  check_shape(run.shape);
  const Schedule compute = build_schedule(config.schedule.name, stages, config.schedule.microbatches);
  run.schedule = with_bubbles(with_communication(compute, replicas > 1 ? Replicas::several : Replicas::one));
  validate(run.schedule);
  run.cut = layer_cut(config, run.shape, compute.chunks());
  for (int chunk = 0; chunk < compute.chunks(); ++chunk) {
    ChunkMemory memory = chunk_memory(run.shape, run.cut, ModelChunkId{chunk}, config.schedule.microbatch_size);
    if (config.optimizer.shard) memory.moments.count = (memory.moments.count + replicas - 1) / replicas;
    run.memory.push_back(memory);
  }
  run.costs = predicted_costs(run, config.schedule.microbatch_size);
  run.timeline = price(run.schedule, run.costs);
  run.limit_from_deck = config.device.memory > Bytes{0};
  run.limit = run.limit_from_deck ? config.device.memory : Bytes{host_memory().count / (stages * replicas)};
  return run;
}

}  // namespace pipefill
