#include "config/deck_error_list.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "storage/utf8.hpp"

namespace pipefill {
namespace {

constexpr int kShownWidth = 100;  ///< characters of a line that are shown around the caret

/// The part of the line around the caret and the caret's place in it.
std::string shown_line(const DeckPlace& place) {
  const int skip = std::max(0, place.mark.column - kShownWidth + 20);
  std::string part;
  int at = -1;
  for (const char c : place.line) {
    if ((static_cast<unsigned char>(c) >> 6) != 2) ++at;
    const bool printable = static_cast<unsigned char>(c) >= 32 && c != 127;
    if (at >= skip && at < skip + kShownWidth) part += printable ? c : ' ';
  }
  if (find_invalid_utf8(part)) part = "(not UTF-8)";
  const std::string number = fmt::format("{:>5}", place.mark.line);
  return fmt::format("{} | {}\n{:>5} | {:>{}}\n", number, part, "", "^", std::max(1, place.mark.column - skip));
}

}  // namespace

void DeckErrorList::add(DeckPlace place, std::string key, std::string text) {
  errors_.push_back({std::move(place), std::move(key), std::move(text)});
}

void DeckErrorList::throw_if_any(std::string_view deck_name) const {
  if (errors_.empty()) return;
  std::vector<One> sorted = errors_;
  std::ranges::stable_sort(sorted, {}, [](const One& e) {
    return std::pair(e.place.mark.line > 0 ? e.place.mark.line : 1 << 30, e.place.mark.column);
  });
  std::string text = fmt::format("{} {} in the deck {}; nothing was started\n", sorted.size(),
                                 sorted.size() == 1 ? "error" : "errors", deck_name);
  for (const One& error : sorted) {
    const bool placed = error.place.mark.line > 0;
    const std::string where =
        placed ? fmt::format("{}:{}:{}", error.place.source, error.place.mark.line, error.place.mark.column)
               : error.place.source;
    text += fmt::format("{}: {}{}\n", where, error.key.empty() ? "" : error.key + ": ", error.text);
    if (placed) text += shown_line(error.place);
  }
  text.pop_back();
  throw DeckError(text);
}

}  // namespace pipefill
