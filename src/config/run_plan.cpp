#include "config/run_plan.hpp"

#include "config/parts.hpp"
#include "model/cost.hpp"
#include "schedule/bubbles.hpp"
#include "schedule/build.hpp"
#include "schedule/communication.hpp"
#include "schedule/forward_only.hpp"
#include "schedule/in_flight.hpp"
#include "schedule/validate.hpp"

namespace pipefill {
namespace {

Schedule lowered(const Schedule& compute, int replicas) {
  Schedule schedule = with_bubbles(with_communication(compute, replicas > 1 ? Replicas::several : Replicas::one));
  validate(schedule);
  return schedule;
}

}  // namespace

std::vector<ModelChunkId> RunPlan::chunks_of(StageId stage) const {
  std::vector<ModelChunkId> chunks;
  for (int c = 0; c < training.chunks(); ++c)
    if (training.stage_of_chunk[static_cast<std::size_t>(c)] == stage) chunks.push_back({c});
  return chunks;
}

RunPlan plan_run(const RunConfig& config, int data_vocab) {
  RunPlan plan;
  plan.layout = {config.parallel.stages, config.parallel.replicas};
  plan.shape = model_shape(config, data_vocab);
  const auto& [name, microbatches, microbatch_size] = config.schedule;
  plan.training = lowered(build_schedule(name, plan.layout.stages, microbatches), plan.layout.replicas);
  plan.evaluation = lowered(forward_only(plan.layout.stages, microbatches), 1);
  plan.cut = layer_cut(config, plan.shape, plan.training.chunks());
  plan.batch = {plan.layout.replicas, microbatches, microbatch_size, plan.shape.context};
  return plan;
}

StageSetup stage_setup(const RunPlan& plan, StageId stage, std::uint64_t seed) {
  StageSetup setup;
  setup.shape = plan.shape;
  setup.cut = plan.cut;
  setup.chunks = plan.chunks_of(stage);
  setup.microbatch_size = plan.batch.microbatch_size;
  setup.gradient_scale = 1.0 / static_cast<double>(plan.batch.tokens_per_step());
  setup.seed = seed;
  for (const ModelChunkId chunk : setup.chunks) {
    const InFlight held = peak_in_flight(plan.training.programs[static_cast<std::size_t>(stage.value)], chunk);
    setup.slots.push_back(held.activations);
    setup.weight_slots.push_back(held.deferred_weights);
  }
  return setup;
}

Bytes planned_memory(const RunPlan& plan, const StageSetup& setup, OptimizerShard shard) {
  const std::vector<ChunkMemory> memories = chunk_memories(plan.shape, plan.cut, setup.microbatch_size,
                                                           shard == OptimizerShard::yes ? plan.layout.replicas : 1);
  Bytes sum{};
  for (std::size_t i = 0; i < setup.chunks.size(); ++i) {
    const ChunkMemory& memory = memories[static_cast<std::size_t>(setup.chunks[i].value)];
    sum += memory.total(setup.slots[i], setup.weight_slots[i]);
  }
  return sum;
}

TrainerSettings trainer_settings(const RunConfig& config, const RunPlan& plan, ReplicaId replica) {
  const OptimizerSection& optimizer = config.optimizer;
  TrainerSettings settings;
  settings.steps = config.run.steps;
  settings.batch = plan.batch;
  settings.update.adamw = {optimizer.beta1,
                           optimizer.beta2,
                           optimizer.epsilon,
                           optimizer.weight_decay,
                           optimizer.shard ? OptimizerShard::yes : OptimizerShard::no,
                           replica,
                           plan.layout.replicas};
  settings.update.learning_rate = {optimizer.learning_rate, optimizer.final_fraction, optimizer.warm_up,
                                   config.run.steps, optimizer.decay};
  settings.update.clip = optimizer.clip;
  settings.update.tokens_per_step = plan.batch.tokens_per_step();
  for (int s = 0; s < plan.layout.stages; ++s) settings.update.chunks_of_stage.push_back(plan.chunks_of({s}));
  settings.training = plan.training;
  settings.evaluation = plan.evaluation;
  settings.validation_every = config.data.validation_every;
  settings.validation_tokens = config.data.validation_tokens;
  settings.checkpoint_every = config.checkpoint.every;
  settings.max_time = config.run.max_time;
  settings.hang_timeout = config.run.hang_timeout;
  settings.progress = config.log.progress;
  settings.log_every = config.log.every;
  return settings;
}

FillSettings fill_settings(const RunConfig& config, const RunPlan& plan, WaitMethod wait, int threads) {
  const FillSection& fill = config.fill;
  FillSettings settings;
  settings.bubbles.strategy = {fill.strategy, fill.fraction};
  settings.bubbles.guard.max_slowdown = fill.max_slowdown;
  settings.bubbles.audit = {config.fill.profile + 1, fill.block, fill.audit};
  settings.bubbles.wait = wait;
  const StrategyTraits traits = traits_of(fill.strategy);
  settings.worker.isolation = fill.isolation;
  settings.worker.priority = traits.worker_class == WorkerClass::idle ? WorkerPriority::idle : WorkerPriority::normal;
  settings.worker.threads = threads;
  settings.worker.rule = traits.rule;
  // The baselines run one job per stage, as those systems do.
  settings.desk.most_jobs = fill.strategy == FillStrategy::adaptive ? static_cast<std::size_t>(fill.most_jobs) : 1;
  settings.desk.policy.policy = fill.policy;
  settings.desk.policy.weights = {fill.weight_waiting, fill.weight_shortness, fill.weight_makespan,
                                  fill.weight_fairness};
  settings.desk.policy.ageing = fill.ageing;
  settings.runs_jobs = traits.runs_jobs && plan.layout.stages > 1;
  return settings;
}

}  // namespace pipefill
