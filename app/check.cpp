// pipefill check: is this deck right? Needs no MPI, starts nothing, and comes to the verdict that train would come to.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "config/load.hpp"
#include "config/parts.hpp"
#include "config/print.hpp"
#include "deck_arguments.hpp"

namespace pipefill {
namespace {

struct CheckOptions {
  std::unique_ptr<DeckArguments> deck;
  int ranks = 0;  ///< 0: not asked
  bool resolved = false;
  bool reference = false;
};

/// Looks for the device, opens the data and cuts the layers as train would, with train's errors; what came out, for
/// people.
std::string describe_run(const RunConfig& config) {
  expect_device_kind(config);
  const TokenData data = open_data(data_description(config), config.model.context);
  const ModelShape shape = model_shape(config, data.vocab());
  std::string text =
      fmt::format("data: {}\nmodel: {} layers, {} channels, {} heads, context {}, vocabulary {}\n", data.describe(),
                  shape.layers, shape.channels, shape.heads, shape.context, shape.vocab);
  const int stages =
      config.parallel.stages != 0 ? config.parallel.stages : static_cast<int>(config.parallel.layers.size());
  if (stages == 0) return text;
  std::vector<int> layers;
  for (const LayerRange& range : layer_cut(config, shape, stages).chunks) layers.push_back(range.count);
  return text + fmt::format("layers of each stage: {}\n", fmt::join(layers, ", "));
}

ExitCode check(const CheckOptions& options) {
  if (options.reference) {
    std::fputs(deck_reference().c_str(), stdout);
    return ExitCode::finished;
  }
  RunConfig config = options.deck->load();
  if (options.ranks > 0) config = validate_for_ranks(config, options.ranks);
  if (options.resolved) {
    std::fputs(print_deck(config).c_str(), stdout);
    return ExitCode::finished;
  }
  const std::string path = options.deck->path();
  fmt::print("{}: the deck is valid\n{}", path.empty() ? "embedded deck" : path, describe_run(config));
  return ExitCode::finished;
}

}  // namespace

void add_check_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("check", "check a deck and tell all its errors; exit code 0 or 78");
  auto options = std::make_shared<CheckOptions>();
  options->deck = std::make_unique<DeckArguments>(*command);
  command->add_option("--ranks", options->ranks, "check the layout for this many MPI processes too")
      ->check(CLI::Range(1, 1'000'000));
  command->add_flag("--resolved", options->resolved, "print the whole deck with defaults and overrides filled in");
  command->add_flag("--reference", options->reference, "print the reference of all keys (docs/deck.md)");
  command->callback([options, &chosen] { chosen = [options] { return check(*options); }; });
}

}  // namespace pipefill
