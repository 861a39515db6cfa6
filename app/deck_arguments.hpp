// The positional arguments `[DECK] [key.path=value ...]`, the same for every command that reads a deck.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "config/run_config.hpp"

namespace pipefill {

class DeckArguments {
 public:
  /// Adds the arguments to `command`; they are filled when the command line is parsed.
  explicit DeckArguments(CLI::App& command);
  DeckArguments(const DeckArguments&) = delete;
  DeckArguments& operator=(const DeckArguments&) = delete;

  /// The first argument without '='; empty where there is none: the embedded deck.
  std::string path() const;
  /// The arguments of the form key.path=value. UsageError on a second DECK.
  std::vector<std::string> overrides() const;
  /// load_deck(path(), overrides()), or the embedded deck. Throws DeckError, FileError, UsageError.
  RunConfig load() const;

 private:
  std::vector<std::string> words_;
};

}  // namespace pipefill
