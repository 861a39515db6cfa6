// Strict YAML over yaml-cpp: a checked tree with positions. Whatever yaml-cpp would drop, merge or guess is a problem
// with its line and column here: duplicate keys, text outside of the document, further documents, tabs, anchors,
// aliases, tags, merge keys, non-UTF-8 and control characters, values over several lines, deep or large input.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pipefill {

/// Counted from 1; columns count characters (code points), not bytes. Line 0: no position.
struct TextMark {
  int line = 0;
  int column = 0;
  friend bool operator==(const TextMark&, const TextMark&) = default;
};

struct YamlEntry;

struct YamlNode {
  enum class Kind { null, plain, quoted, sequence, map };
  Kind kind = Kind::null;
  TextMark mark;
  std::string text = {};                ///< of plain and quoted scalars
  std::vector<YamlNode> items = {};     ///< of a sequence
  std::vector<YamlEntry> entries = {};  ///< of a map, in the order written; keys differ
};

struct YamlEntry {
  std::string key;
  TextMark key_mark;
  YamlNode value;
};

struct YamlProblem {
  TextMark mark;
  std::string text;
};

struct YamlDocument {
  YamlNode root;
  std::vector<YamlProblem> problems;  ///< empty: `root` is the whole text and nothing but it
  std::vector<std::string> lines;     ///< the text, without line ends, for showing problems in their place
};

inline constexpr std::size_t kMaxYamlSize = std::size_t{1} << 20;  ///< bytes
inline constexpr int kMaxYamlDepth = 32;

/// Never throws for any input: what is wrong is in `problems`, as many as can be told apart in one go. A byte order
/// mark and CRLF line ends are accepted.
YamlDocument parse_yaml(std::string_view text);

}  // namespace pipefill
