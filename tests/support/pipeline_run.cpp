#include "support/pipeline_run.hpp"

#include <fstream>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "config/parts.hpp"
#include "config/print.hpp"
#include "config/run_plan.hpp"
#include "device/cpu/cpu_device.hpp"
#include "engine/trainer.hpp"

namespace pipefill::testing_support {
namespace {

void read_metrics(const std::filesystem::path& path, PipelineResult& result) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    if (json.contains("loss")) {
      result.losses.push_back(json["loss"]);
      result.norms.push_back(json["gradient_norm"]);
    } else if (json.contains("validation_loss")) {
      result.validation_loss = json["validation_loss"];
    }
  }
}

WaitMethod wait_method(const RunConfig& config) {
  return config.device.wait == WaitChoice::sleep ? WaitMethod::sleep : WaitMethod::yield;
}

}  // namespace

RunConfig small_run(int stages, int replicas, int microbatches, const std::string& schedule) {
  RunConfig config;
  config.run.steps = 3;
  config.run.seed = 7;
  config.model = {
      .layers = 3, .channels = 32, .heads = 2, .context = 16, .vocab = 64, .tied = true, .compute = ComputeType::fp32};
  config.data.vocab = 64;
  config.data.validation_tokens = 0;
  config.parallel.stages = stages;
  config.parallel.replicas = replicas;
  config.schedule = {schedule, microbatches, 2};
  config.optimizer.warm_up = 2;
  config.log.progress = ProgressStyle::none;
  return config;
}

PipelineResult run_rank(const RunConfig& config, Transport& transport, Hdf5Thread& hdf5, const AtEnd& at_end) {
  const TokenData data = open_data(data_description(config), config.model.context);
  const RunPlan plan = plan_run(config, data.vocab());
  const RankId me = transport.rank();
  CpuDevice device(1, Bytes{0});
  Stage stage(stage_setup(plan, plan.layout.stage_of(me), config.run.seed), device);
  Waiter waiter(plan.layout, me, {.method = wait_method(config)});
  const ArrivalClock arrivals;
  Trace trace;
  SpanRecorder spans(trace);
  RankServices services{plan.layout, transport, waiter, device, trace, arrivals};

  const RunDirectory directory{config.run.directory};
  const RankGroup ranks = ranks_over(transport, waiter);
  all_or_none(ranks, [&] {
    if (me.value == 0) create_run_directory(directory);
  });
  Checkpointer checkpointer(directory.checkpoints(), config.checkpoint.keep, ranks, hdf5);
  StatusFile status_file(directory);
  std::optional<RunReporter> reporter;
  if (me.value == 0) reporter.emplace(directory, status_file, RunStatus{}, hdf5, services.log);

  RunState state;
  state.deck = print_deck(config);
  state.schedule = config.schedule.name;
  state.stages = plan.layout.stages, state.replicas = plan.layout.replicas;
  state.seed = config.run.seed;
  const CheckpointSearch search = find_checkpoint(ranks, directory.checkpoints());
  if (search.found) {
    state.step = search.found->manifest.state.step;
    state.next_sample = search.found->manifest.state.next_sample;
    state.attempt = search.found->manifest.state.attempt + 1;
  }
  Trainer trainer(trainer_settings(config, plan, plan.layout.replica_of(me)), state, stage, data, services, spans,
                  &checkpointer, reporter ? &*reporter : nullptr, nullptr);
  if (search.found) load_tensors(ranks, *search.found, rows_to_load(stage, trainer.update().adamw()));
  trainer.run();
  if (at_end) at_end(trainer, plan);

  PipelineResult result;
  const auto tensors = stage.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].spec.name;
    const Moments& moments = trainer.update().adamw().moments()[i];
    result.tensors["parameters/" + name].assign(tensors[i].values.begin(), tensors[i].values.end());
    result.tensors["moment1/" + name].assign(moments.first.begin(), moments.first.end());
    result.tensors["moment2/" + name].assign(moments.second.begin(), moments.second.end());
  }
  reporter.reset();
  if (me.value == 0) read_metrics(directory.metrics(), result);
  return result;
}

PipelineResult run_over_loopback(const RunConfig& config, Hdf5Thread& hdf5, LoopbackOptions options) {
  PipelineResult joined;
  std::mutex mutex;
  run_loopback(
      config.parallel.stages * config.parallel.replicas,
      [&](Transport& transport) {
        PipelineResult mine = run_rank(config, transport, hdf5);
        const std::lock_guard lock(mutex);
        if (transport.rank().value == 0)
          joined.losses = mine.losses, joined.norms = mine.norms, joined.validation_loss = mine.validation_loss;
        for (auto& [name, values] : mine.tensors) {
          const auto [found, is_new] = joined.tensors.try_emplace(name, values);
          // Replicas, and both sides of a tied embedding, must hold the same bits (a ZeRO-1 shard only its own rows).
          if (!is_new && !config.optimizer.shard && found->second != values)
            throw std::runtime_error(name + " differs between ranks");
        }
      },
      options);
  return joined;
}

}  // namespace pipefill::testing_support
