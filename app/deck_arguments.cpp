#include "deck_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "config/load.hpp"

namespace pipefill {
namespace {

bool is_override(const std::string& word) { return word.find('=') != std::string::npos; }

}  // namespace

DeckArguments::DeckArguments(CLI::App& command) {
  command
      .add_option("DECK", words_,
                  "the deck (default: the embedded inputs/tiny.yaml), then overrides such as run.steps=50; all keys: "
                  "pipefill check --reference")
      ->type_name("[key.path=value ...]");
}

std::string DeckArguments::path() const {
  const auto found = std::ranges::find_if_not(words_, is_override);
  return found == words_.end() ? std::string{} : *found;
}

std::vector<std::string> DeckArguments::overrides() const {
  std::vector<std::string> result;
  std::ranges::copy_if(words_, std::back_inserter(result), is_override);
  if (words_.size() > result.size() + 1) {
    const auto first = std::ranges::find_if_not(words_, is_override);
    const auto second = std::find_if_not(first + 1, words_.end(), is_override);
    throw UsageError(
        fmt::format("two decks given, '{}' and '{}': a run has one deck; an override has the form key.path=value",
                    *first, *second));
  }
  return result;
}

RunConfig DeckArguments::load() const {
  const std::vector<std::string> given = overrides();
  return path().empty() ? load_embedded_deck(given) : load_deck(path(), given);
}

}  // namespace pipefill
