#include "config/print.hpp"

#include <fmt/format.h>

#include "config/keys.hpp"

namespace pipefill {

std::string print_deck(const RunConfig& config) {
  std::string text, section;
  for (const Key& key : deck_keys()) {
    if (key.section() != section) {
      section = key.section();
      text += section + ":\n";
    }
    text += fmt::format("  {}: {}\n", key.name(), value_text(key, config));
  }
  return text;
}

std::string deck_reference() {
  std::string text =
      "# The deck\n\n"
      "Made from the table in `src/config/keys.cpp` by `pipefill check --reference`; a test compares the two.\n\n"
      "A deck is YAML: sections, and keys with values below them. Every key may be left out. On the command line\n"
      "`section.key=value` goes before the deck. The YAML is taken strictly: no duplicate or unknown keys, no tabs, "
      "no\n"
      "anchors, tags or further documents; integers in decimal without exponent; `true` and `false` only; text that "
      "looks\n"
      "like a number or like yes, no, null needs quotes.\n";
  const RunConfig defaults;
  std::string section;
  for (const Key& key : deck_keys()) {
    if (key.section() != section) {
      section = key.section();
      text += fmt::format("\n## {}\n\n| key | value | default | meaning |\n|---|---|---|---|\n", section);
    }
    text +=
        fmt::format("| `{}` | {} | `{}` | {} |\n", key.name(), expectation(key), value_text(key, defaults), key.help);
  }
  return text;
}

}  // namespace pipefill
