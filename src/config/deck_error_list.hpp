// Collects everything that is wrong with a deck, each with its place, and throws it as one DeckError.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "storage/strict_yaml.hpp"

namespace pipefill {

/// Where a value was written. Without a line: on the command line (`source` is the whole argument) or nowhere.
struct DeckPlace {
  std::string source;  ///< "inputs/tiny.yaml", "command line: model.layers=4" or "default"
  TextMark mark;
  std::string line;  ///< the text of the line, to be shown with a caret; empty: not shown
};

class DeckErrorList {
 public:
  /// `key` may be empty where the trouble is the YAML itself.
  void add(DeckPlace place, std::string key, std::string text);
  bool empty() const { return errors_.empty(); }
  /// Throws DeckError with all errors, those of the file first and in the order of their lines; does nothing without
  /// any.
  void throw_if_any(std::string_view deck_name) const;

 private:
  struct One {
    DeckPlace place;
    std::string key, text;
  };
  std::vector<One> errors_;
};

}  // namespace pipefill
