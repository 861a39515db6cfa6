// The one table of keys. Loading, checking, printing, --help and docs/deck.md are all read off it: a new key is a
// member of RunConfig and one line in keys.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/run_config.hpp"
#include "storage/strict_yaml.hpp"

namespace pipefill {

/// A member of RunConfig whose type is an enum: read and written as the position in Key::names.
struct EnumField {
  std::function<int()> get;
  std::function<void(int)> set;
};

/// The member of one RunConfig that a key stands for; valid as long as that RunConfig.
using Field = std::variant<int*, std::int64_t*, std::uint64_t*, double*, bool*, std::string*, Nanoseconds*, Bytes*,
                           std::vector<int>*, std::vector<std::string>*, EnumField>;

enum class Bound { included, excluded };

/// Of a number, of every number in a list, of seconds or of bytes.
struct Range {
  double low, high;
  Bound at_low = Bound::included, at_high = Bound::included;
};

struct Key {
  std::string path;  ///< "model.layers"
  std::function<Field(RunConfig&)> field;
  Range range;
  std::string word;                ///< how zero, or nothing, is written ("auto", "none"); empty: it has no word
  std::vector<std::string> names;  ///< of an enum, or all that a text may be
  std::string help;                ///< one line, with the unit

  std::string section() const { return path.substr(0, path.find('.')); }
  std::string name() const { return path.substr(path.find('.') + 1); }
};

/// In the order of the struct; built once.
const std::vector<Key>& deck_keys();
const Key* find_key(const std::string& path);
/// The sections in their order.
std::vector<std::string> deck_sections();

/// Sets the member from a value of the deck; the result is empty or what is wrong with the value.
std::string assign(const Key& key, RunConfig& config, const YamlNode& value);
/// The member's value as assign reads it, with full precision.
std::string value_text(const Key& key, const RunConfig& config);
/// "an integer of at least 1, or auto"
std::string expectation(const Key& key);
/// Empty, or what is wrong with the member as it stands.
std::string check_range(const Key& key, const RunConfig& config);

}  // namespace pipefill
