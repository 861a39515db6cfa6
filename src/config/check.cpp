#include "config/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.hpp"
#include "config/keys.hpp"
#include "schedule/schedule.hpp"

namespace pipefill {
namespace {

using Findings = std::vector<Finding>;

void check_model(const RunConfig& config, Findings& found) {
  const ModelSection& model = config.model;
  if (model.channels % model.heads != 0)
    found.push_back({"model.channels", fmt::format("{} channels do not divide into {} heads (model.heads)",
                                                   model.channels, model.heads)});
  const double blocks = 12.0 * model.layers * model.channels * static_cast<double>(model.channels);
  if (blocks > 1e13)
    found.push_back(
        {"model.channels", fmt::format("{} layers of {} channels are {:.1e} parameters; at most 1e13 are possible",
                                       model.layers, model.channels, blocks)});
}

/// Sizes in bytes and times in nanoseconds of a replica's step are 64-bit numbers in all that plans and prices it.
void check_step_size(const RunConfig& config, Findings& found) {
  constexpr double kMostValues = 1e15, kMostFlops = 3e20;
  const ModelSection& model = config.model;
  const double tokens =
      static_cast<double>(config.schedule.microbatches) * config.schedule.microbatch_size * model.context;
  const double vocab = model.vocab > 0 ? model.vocab : config.data.vocab, C = model.channels;
  const double values = tokens * (C * (model.layers + 2) + vocab);
  const double flops = tokens * (model.layers * (72 * C * C + 12 * C * model.context) + 6 * vocab * C);
  if (values > kMostValues)
    found.push_back({"schedule.microbatch_size",
                     fmt::format("a step of {:.1e} tokens (schedule.microbatches times microbatch_size times "
                                 "model.context) holds {:.1e} values; at most {:.0e} are possible",
                                 tokens, values, kMostValues)});
  else if (flops > kMostFlops)
    found.push_back({"schedule.microbatch_size",
                     fmt::format("a step of {:.1e} tokens (schedule.microbatches times microbatch_size times "
                                 "model.context) takes {:.1e} FLOPs; at most {:.0e} are possible",
                                 tokens, flops, kMostFlops)});
}

void check_data(const RunConfig& config, Findings& found) {
  const DataSection& data = config.data;
  const bool synthetic = data.source == TokenFormat::synthetic;
  if (synthetic && !data.files.empty())
    found.push_back(
        {"data.files", "data.source is synthetic, which reads no files; leave them out or name their format"});
  if (!synthetic && data.files.empty())
    found.push_back({"data.files", fmt::format("data.source is {}, which needs files",
                                               value_text(*find_key("data.source"), config))});
  const int needed = synthetic ? data.vocab : data.source == TokenFormat::bytes ? kByteVocab : 0;
  if (config.model.vocab != 0 && config.model.vocab < needed)
    found.push_back(
        {"model.vocab", fmt::format("{} symbols are less than the {} of the data source", config.model.vocab, needed)});
  if (!synthetic && data.validation_every > 0 && data.validation_fraction == 0)
    found.push_back({"data.validation_every", "data.validation_fraction is 0: nothing is held out to validate on"});
  if (data.validation_every > 0 && data.validation_tokens == 0)
    found.push_back({"data.validation_every", "data.validation_tokens is 0: there is nothing to validate on"});
}

/// `stages` 0: not known yet.
void check_schedule(const RunConfig& config, std::int64_t stages, Findings& found) {
  const int microbatches = config.schedule.microbatches;
  if (stages > kMostStages)
    found.push_back({"parallel.stages", fmt::format("{} stages; at most {} are possible", stages, kMostStages)});
  if (stages * microbatches > kMostStageMicrobatches)
    found.push_back({"schedule.microbatches", fmt::format("{} microbatches on {} stages; stages times microbatches may "
                                                          "be {} at most",
                                                          microbatches, stages, kMostStageMicrobatches)});
}

std::int64_t stages_of_deck(const RunConfig& config) {
  const ParallelSection& parallel = config.parallel;
  return parallel.stages != 0 ? parallel.stages : static_cast<std::int64_t>(parallel.layers.size());
}

void check_parallel(const RunConfig& config, Findings& found) {
  const ParallelSection& parallel = config.parallel;
  if (!parallel.layers.empty()) {
    const std::int64_t sum = std::accumulate(parallel.layers.begin(), parallel.layers.end(), std::int64_t{0});
    if (sum != config.model.layers)
      found.push_back({"parallel.layers",
                       fmt::format("the stages' layers add up to {}, model.layers is {}", sum, config.model.layers)});
    if (parallel.stages != 0 && parallel.stages != static_cast<int>(parallel.layers.size()))
      found.push_back({"parallel.layers", fmt::format("{} entries for {} stages (parallel.stages); each stage has one",
                                                      parallel.layers.size(), parallel.stages)});
  }
}

}  // namespace

Findings check_members(const RunConfig& config) {
  Findings found;
  for (const Key& key : deck_keys())
    if (std::string wrong = check_range(key, config); !wrong.empty()) found.push_back({key.path, std::move(wrong)});
  return found;
}

Findings check_together(const RunConfig& config) {
  Findings found;
  check_model(config, found);
  check_step_size(config, found);
  check_data(config, found);
  check_parallel(config, found);
  check_schedule(config, stages_of_deck(config), found);
  return found;
}

Findings check_ranks(const RunConfig& config, int ranks) {
  const ParallelSection& parallel = config.parallel;
  const std::int64_t stages = stages_of_deck(config);
  if (stages == 0 && ranks % parallel.replicas != 0)
    return {
        {"parallel.replicas", fmt::format("{} do not divide into {}; start a multiple of {}", counted(ranks, "rank"),
                                          counted(parallel.replicas, "replica"), parallel.replicas)}};
  if (stages != 0 && stages * parallel.replicas != ranks)
    return {{"parallel.stages",
             fmt::format("{} x {} need {}, there are {}; start {} or change the deck", counted(stages, "stage"),
                         counted(parallel.replicas, "replica"), counted(stages * parallel.replicas, "rank"), ranks,
                         stages * parallel.replicas)}};
  Findings found;
  check_schedule(config, ranks / parallel.replicas, found);
  return found;
}

}  // namespace pipefill
