// pipefill train: the main job. Order, measure, train, tell.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "comm/cluster.hpp"
#include "commands.hpp"
#include "config/load.hpp"
#include "config/parts.hpp"
#include "deck_arguments.hpp"
#include "engine/signals.hpp"
#include "start_up_watch.hpp"
#include "train_session.hpp"
#include "walltime.hpp"

namespace pipefill {
namespace {

struct TrainOptions {
  std::unique_ptr<DeckArguments> deck;
  std::string resume = "auto";
  std::string max_time;
};

/// Errors that every rank meets alike, from the same values: told once, by rank 0.
bool is_shared(const Error& error) {
  return error.code() == ExitCode::deck || error.code() == ExitCode::usage || error.code() == ExitCode::diverged ||
         dynamic_cast<const SharedError*>(&error) != nullptr;
}

ExitCode train(const TrainOptions& options) {
  const Nanoseconds started = now();
  install_signal_handlers();
  std::optional<StartUpWatch> watch([] { end_all_ranks(static_cast<int>(ExitCode::stopped_early)); });
  Cluster cluster;
  try {
    RunConfig config = validate_for_ranks(options.deck->load(), cluster.size());
    expect_device_kind(config);
    // Rank 0 watches the time; the others read it too, so that all leave at a wrong one, but do not ask Slurm.
    if (!options.max_time.empty() && (cluster.rank().value == 0 || options.max_time != "auto"))
      config.run.max_time = parse_max_time(options.max_time);
    watch.reset();  // the session has its own, which can say more
    TrainSession session(cluster, config, parse_resume(options.resume), started);
    return session.run();
  } catch (const Error& error) {
    if (is_shared(error) && cluster.rank().value != 0) throw Error(error.code(), "");
    throw;
  }
}

}  // namespace

void add_train_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("train", "train the deck's model over the ranks that mpirun started");
  auto options = std::make_shared<TrainOptions>();
  options->deck = std::make_unique<DeckArguments>(*command);
  command->add_option("--resume", options->resume,
                      "auto: go on from the newest good checkpoint, if any; never: refuse a used run directory; STEP");
  command->add_option("--max-time", options->max_time,
                      "stop with a checkpoint before this long (3:50:00); auto: what Slurm has left");
  command->footer(
      "mpirun -n P*R pipefill train DECK; one process is a pipeline of one stage.\n"
      "USR1: save and go on. USR2: save and stop (75). TERM, INT: stop at the next step; twice: at once.");
  command->callback([options, &chosen] { chosen = [options] { return train(*options); }; });
}

}  // namespace pipefill
