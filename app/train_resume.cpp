#include "train_resume.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <filesystem>

#include "base/error.hpp"
#include "checkpoint/directory.hpp"
#include "config/keys.hpp"
#include "config/load.hpp"
#include "config/print.hpp"

namespace pipefill {
namespace {

/// What rank 0 read from the run directory.
struct Past {
  int attempt = 0;  ///< of the last start; 0: none
  bool finished = false;
};

Past read_past(const RunDirectory& run, const RunConfig& config, const Log& log) {
  if (!std::filesystem::exists(run.status())) return {};
  try {
    const RunStatus status = read_status(run);
    if (is_stale(status))
      log->warn(
          "the last start (attempt {}) was killed at step {} or later without a word; going on from its newest "
          "checkpoint",
          status.attempt, status.step);
    return {status.attempt, status.phase == RunPhase::finished && status.step >= config.run.steps};
  } catch (const FileError& error) {
    log->warn("{}; it is replaced", error.what());
    return {1, false};
  }
}

/// Keys whose change would make the rest of the run another one, with both values; empty when it may go on.
std::vector<std::string> differences(const RunConfig& now, const RunConfig& then) {
  std::vector<std::string> found;
  const auto compare = [&found](const char* key, const auto& a, const auto& b) {
    if (a != b) found.push_back(fmt::format("{} is {}, was {}", key, a, b));
  };
  compare("run.seed", now.run.seed, then.run.seed);
  compare("model.layers", now.model.layers, then.model.layers);
  compare("model.channels", now.model.channels, then.model.channels);
  compare("model.heads", now.model.heads, then.model.heads);
  compare("model.context", now.model.context, then.model.context);
  compare("model.vocab", now.model.vocab, then.model.vocab);
  compare("model.tied", now.model.tied, then.model.tied);
  const Key& source = *find_key("data.source");
  compare("data.source", value_text(source, now), value_text(source, then));
  compare("data.files", now.data.files, then.data.files);
  compare("data.vocab", now.data.vocab, then.data.vocab);
  compare("data.validation_fraction", now.data.validation_fraction, then.data.validation_fraction);
  return found;
}

}  // namespace

ResumeChoice parse_resume(const std::string& text) {
  if (text == "auto") return {ResumeChoice::Kind::automatic, 0};
  if (text == "never") return {ResumeChoice::Kind::never, 0};
  std::int64_t step = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (status != std::errc{} || end != text.data() + text.size() || step < 1)
    throw UsageError(fmt::format("--resume {}: expected auto, never, or the step of a checkpoint", text));
  return {ResumeChoice::Kind::step, step};
}

StartingPoint find_start(const RankGroup& ranks, const RunDirectory& run, const RunConfig& config, ResumeChoice choice,
                         const Log& log) {
  Past past;
  all_or_none(ranks, [&] {
    if (ranks.rank == 0) past = read_past(run, config, log);
    // Without its status.json a directory is a used one too: its checkpoints would be taken up.
    const bool used = past.attempt > 0 || (ranks.rank == 0 && !list_checkpoints(run.checkpoints()).empty());
    if (choice.kind == ResumeChoice::Kind::never && used)
      throw FileError(ExitCode::cannot_create, run.root.string(),
                      "holds an earlier run and --resume is never; choose another run.directory, or --resume auto");
    if (ranks.rank == 0)
      for (const std::string& name : prune_leftovers(run.checkpoints()))
        log->warn("removed {}, left by a killed save", name);
  });
  const std::string told = ranks.gather(fmt::format("{} {}", past.attempt, past.finished ? 1 : 0)).front();
  StartingPoint start;
  start.attempt = std::stoi(told) + 1;
  start.finished = choice.kind == ResumeChoice::Kind::automatic && told.back() == '1';
  if (start.finished) return start;

  std::optional<std::int64_t> step;
  if (choice.kind == ResumeChoice::Kind::step) step = choice.step;
  CheckpointSearch search = find_checkpoint(ranks, run.checkpoints(), step);
  if (ranks.rank == 0)
    for (const DamagedCheckpoint& damaged : search.damaged)
      log->warn("checkpoint {} is damaged and passed over: {}", damaged.path,
                damaged.damage.empty() ? "unreadable" : damaged.damage.front().text);
  start.checkpoint = std::move(search.found);
  // To start afresh would write over what may still be saved by hand.
  if (!start.checkpoint && !search.damaged.empty())
    throw SharedError(
        ExitCode::damaged_data,
        fmt::format("{}: all {} checkpoints are damaged, {} ({}). Repair one, or move them away to start "
                    "afresh",
                    run.checkpoints().string(), search.damaged.size(), search.damaged.front().path,
                    search.damaged.front().damage.empty() ? "unreadable" : search.damaged.front().damage.front().text));
  if (!start.checkpoint) return start;
  const RunState& state = start.checkpoint->manifest.state;
  const auto changed = differences(config, load_deck_text("the checkpoint's deck", state.deck));
  if (!changed.empty())
    throw DeckError(fmt::format("{} cannot go on with this deck: {}. Choose another run.directory for another run",
                                start.checkpoint->path, fmt::join(changed, "; ")));
  return start;
}

RunState first_state(const RunConfig& config, const RunPlan& plan, const StartingPoint& start) {
  RunState state;
  state.stages = plan.layout.stages, state.replicas = plan.layout.replicas;
  state.schedule = config.schedule.name;
  for (const LayerRange& range : plan.cut.chunks) state.layers.push_back(range.count);
  state.deck = print_deck(config);
  state.seed = config.run.seed;
  state.attempt = start.attempt;
  if (!start.checkpoint) return state;
  const RunState& then = start.checkpoint->manifest.state;
  state.step = then.step;
  state.next_sample = then.next_sample;
  state.training_loss = then.training_loss;
  return state;
}

}  // namespace pipefill
