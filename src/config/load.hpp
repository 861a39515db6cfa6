// From a deck to a RunConfig: strict YAML, overrides of the command line, checks of one key and of several together.
// Precedence: defaults < file < command line. All errors of a deck are found and told in one go.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.hpp"

namespace pipefill {

/// Reads, checks and resolves a deck; `overrides` are "key.path=value" with the value in YAML. run.directory is filled
/// in. Throws FileError (66) where there is no such file and DeckError (78) with one block per error:
///   file:line:column: key: what is wrong, what was expected, the nearest valid name
///     12 |   learnig_rate: 1e-3
///        |   ^
RunConfig load_deck(const std::string& path, const std::vector<std::string>& overrides = {});

/// The same for text in memory; `name` stands for the file in messages, its stem for the deck's name.
RunConfig load_deck_text(const std::string& name, std::string_view text,
                         const std::vector<std::string>& overrides = {});

/// The same for inputs/tiny.yaml as it was when the program was built (run.directory runs/tiny).
RunConfig load_embedded_deck(const std::vector<std::string>& overrides = {});

/// Refuses (DeckError) what no single key shows: every key in its range, and keys that contradict each other.
void validate(const RunConfig& config);

/// Refuses (DeckError) a layout that does not fit `ranks` processes; returns `config` with parallel.stages filled in
/// where it was auto (ranks / replicas). Pure: every rank comes to the same verdict without a message.
RunConfig validate_for_ranks(RunConfig config, int ranks);

}  // namespace pipefill
