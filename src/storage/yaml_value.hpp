// Typed values out of a YAML tree, without guessing: one spelling per type. Integers are decimal without leading zeros,
// underscores or exponent; booleans are true and false; text that YAML 1.1 or 1.2 would read as something else needs
// quotes; a quoted number is text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "storage/strict_yaml.hpp"

namespace pipefill {

/// The value, or what is wrong: "expected an integer, got 1e3; write it without exponent".
template <class T>
struct Read {
  std::optional<T> value;
  std::string wrong;
};

Read<std::int64_t> read_integer(const YamlNode& node);
Read<double> read_number(const YamlNode& node);  ///< finite; an integer is a number too
Read<bool> read_bool(const YamlNode& node);
Read<std::string> read_text(const YamlNode& node);

/// "the list", "the text \"a\"", "010": the node as messages name it.
std::string describe(const YamlNode& node);
/// Written so that read_text gives `text` back, with quotes only where they are needed.
std::string write_text(const std::string& text);

}  // namespace pipefill
