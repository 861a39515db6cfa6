// pipefill plan: what a deck will do, before anything runs: the schedule drawn, its bubbles and the fill work in them,
// memory per stage, and what will not fit. No MPI, no device, none of the main job's data.
#include <fmt/format.h>

#include <cstdio>
#include <iterator>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands.hpp"
#include "config/load.hpp"
#include "deck_arguments.hpp"
#include "planned_fill.hpp"
#include "planned_run.hpp"
#include "schedule/build.hpp"
#include "schedule/draw.hpp"
#include "schedule/text.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

struct PlanOptions {
  std::unique_ptr<DeckArguments> deck;
  int ranks = 0;  ///< 0: the deck says how many stages
  int width = 120;
  std::string csv;
};

RunConfig load_with_stages(const PlanOptions& options) {
  RunConfig config = options.deck->load();
  if (options.ranks > 0) return validate_for_ranks(config, options.ranks);
  if (config.parallel.stages == 0) config.parallel.stages = static_cast<int>(config.parallel.layers.size());
  if (config.parallel.stages == 0) {
    throw UsageError(
        "the deck leaves parallel.stages to the number of ranks; say how many with --ranks N, or parallel.stages=N");
  }
  return config;
}

std::string bubble_lines(const PlannedRun& run) {
  const Timeline& timeline = run.timeline;
  std::string text =
      fmt::format("bubble fraction  {:.4f}  sum of bubbles / (stages x step), from the FLOPs of each stage\n",
                  timeline.bubble_fraction);
  const Schedule& schedule = run.plan.training;
  if (const auto ideal = closed_form_bubble_fraction(schedule.name, schedule.stages(), schedule.microbatches)) {
    text += fmt::format("closed form      {:.4f}  (P-1)/(M+P-1), equal stages\n", *ideal);
  }
  text +=
      fmt::format("device span      {:.4f}  the same, of the longest time from a stage's first start to its last end\n",
                  timeline.device_span_bubble_fraction);
  return text + fmt::format(
                    "Times are FLOPs at a nominal {:.0f} GFLOP/s a stage, without messages and optimizer; only their "
                    "ratios count.\n",
                    kNominalRate / 1e9);
}

/// One row per stage. With several chunks on a stage its rows are the chunks' sums.
std::string stage_table(const PlannedRun& run) {
  const Schedule& schedule = run.plan.training;
  std::string text = fmt::format("{:<5} {:>6} {:>6}  {:>10} {:>10} {:>10} {:>10} {:>10} {:>9} {:>11} {:>10} {:>10}\n",
                                 "stage", "layers", "idle", "parameters", "gradients", "optimizer", "copies", "scratch",
                                 "in flight", "activations", "logits", "total");
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const StageTimeline& timeline = run.timeline.stages[static_cast<std::size_t>(stage)];
    ChunkMemory sum;
    int layers = 0;
    for (int chunk = 0; chunk < schedule.chunks(); ++chunk) {
      if (schedule.stage_of_chunk[static_cast<std::size_t>(chunk)].value != stage) continue;
      const ChunkMemory& memory = run.memory[static_cast<std::size_t>(chunk)];
      layers += run.plan.cut[ModelChunkId{chunk}].count;
      sum.parameters += memory.parameters, sum.gradients += memory.gradients, sum.moments += memory.moments;
      sum.compute_copies += memory.compute_copies, sum.scratch += memory.scratch, sum.logits += memory.logits;
    }
    const double idle = run.timeline.makespan.count() == 0 ? 0
                                                           : static_cast<double>(timeline.idle.count()) /
                                                                 static_cast<double>(run.timeline.makespan.count());
    text += fmt::format("{:<5} {:>6} {:>5.1f}%  {:>10} {:>10} {:>10} {:>10} {:>10} {:>9g} {:>11} {:>10} {:>10}\n",
                        stage, layers, 100 * idle, format_bytes(sum.parameters), format_bytes(sum.gradients),
                        format_bytes(sum.moments), format_bytes(sum.compute_copies), format_bytes(sum.scratch),
                        timeline.peak_microbatches, format_bytes(timeline.peak_activations),
                        format_bytes(sum.logits * static_cast<std::int64_t>(timeline.peak_microbatches)),
                        format_bytes(timeline.peak_memory));
  }
  return text + "Logits are part of the activations; activations are those of all microbatches in flight at once.\n";
}

std::string memory_warnings(const PlannedRun& run, const RunConfig& config) {
  const std::string limit = run.limit_from_deck
                                ? fmt::format("device.memory of {}", format_bytes(run.limit))
                                : fmt::format("its share of this host's memory, {}", format_bytes(run.limit));
  std::string text;
  for (std::size_t stage = 0; stage < run.timeline.stages.size(); ++stage) {
    const StageTimeline& timeline = run.timeline.stages[stage];
    if (timeline.peak_memory <= run.limit) continue;
    text += fmt::format("warning: stage {} needs {}, {} more than {}\n", stage, format_bytes(timeline.peak_memory),
                        format_bytes(timeline.peak_memory - run.limit), limit);
  }
  if (text.empty()) return fmt::format("Every stage fits into {}.\n", limit);
  return text + fmt::format(
                    "         It would fail when it starts. Take more stages, a smaller schedule.microbatch_size "
                    "(now {}){}, or a larger device.memory.\n",
                    config.schedule.microbatch_size,
                    config.schedule.name == "gpipe" ? ", schedule.name=1f1b, which keeps fewer microbatches" : "");
}

std::string csv_text(const PlannedRun& run) {
  std::string text = "stage,position,instruction,start_ns,end_ns,slack_ns\n";
  for (std::size_t stage = 0; stage < run.timeline.stages.size(); ++stage) {
    const auto& instructions = run.timeline.stages[stage].instructions;
    for (std::size_t index = 0; index < instructions.size(); ++index) {
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{}\n", stage, index,
                     to_text(run.plan.training.programs[stage][index]), instructions[index].start.count(),
                     instructions[index].end.count(), instructions[index].slack.count());
    }
  }
  return text;
}

ExitCode plan(const PlanOptions& options) {
  const RunConfig config = load_with_stages(options);
  const PlannedRun run = predict_run(config);
  const std::string path = options.deck->path();
  fmt::print("{}: {} x {}, {} of {} of {}\n\n", path.empty() ? "embedded deck" : path,
             counted(config.parallel.stages, "stage"), counted(config.parallel.replicas, "replica"),
             counted(config.schedule.microbatches, "microbatch", "es"),
             counted(config.schedule.microbatch_size, "sequence"), counted(config.model.context, "token"));
  PlannedFill fill;
  const bool fills = !config.fill.jobs.empty() && fill_settings(config, run.plan, WaitMethod::spin, 1).runs_jobs;
  if (fills) fill = predict_fill(config, run);
  fmt::print("{}\n{}\n", draw(run.plan.training, run.costs, run.timeline, options.width, drawn_work(fill, run)),
             bubble_lines(run));
  if (fills) fmt::print("{}\n", fill_lines(fill, run, config));
  fmt::print("{}\n{}", stage_table(run), memory_warnings(run, config));
  if (!options.csv.empty()) {
    replace_file(options.csv, csv_text(run), Durability::cached);
    fmt::print("Wrote every instruction with its predicted times to {}.\n", options.csv);
  }
  return ExitCode::finished;
}

}  // namespace

void add_plan_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("plan", "draw the schedule; bubbles and memory per stage; no MPI, no data");
  auto options = std::make_shared<PlanOptions>();
  options->deck = std::make_unique<DeckArguments>(*command);
  command->add_option("--ranks", options->ranks, "plan for this many MPI processes (default: what the deck says)")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--width", options->width, "characters a line of the drawing may have")
      ->check(CLI::Range(40, 10000))
      ->capture_default_str();
  command->add_option("--csv", options->csv, "write every instruction with its predicted times to this file");
  command->callback([options, &chosen] { chosen = [options] { return plan(*options); }; });
}

}  // namespace pipefill
