#include "storage/strict_yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "storage/utf8.hpp"

namespace pipefill {
namespace {

constexpr std::size_t kMaxProblems = 50;

struct Stop {};  ///< thrown through yaml-cpp where going on would make no sense

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// Turns yaml-cpp's events into the tree, refusing on the way what a deck must not contain.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& text, YamlDocument& document) : text_(text), document_(document) {}

  TextMark place(const YAML::Mark& mark) const {
    if (mark.line < 0 || static_cast<std::size_t>(mark.line) >= document_.lines.size()) {
      const int last = static_cast<int>(document_.lines.size());
      return {std::max(last, 1), last == 0 ? 1 : count_characters(document_.lines.back()) + 1};
    }
    const std::string& line = document_.lines[static_cast<std::size_t>(mark.line)];
    const std::size_t bytes = std::min(static_cast<std::size_t>(std::max(mark.column, 0)), line.size());
    return {mark.line + 1, count_characters(std::string_view(line).substr(0, bytes)) + 1};
  }

  void refuse(TextMark mark, std::string text) {
    if (document_.problems.size() >= kMaxProblems) throw Stop{};
    document_.problems.push_back({mark, std::move(text)});
  }

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = place(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_properties(mark, anchor, "?");
    add({.kind = YamlNode::Kind::null, .mark = place(mark)});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(place(mark), "aliases (*name) are not allowed; write the value out");
    add({.kind = YamlNode::Kind::null, .mark = place(mark)});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_properties(mark, anchor, tag);
    const bool plain = tag == "?";
    if (plain && anchor == 0 &&
        text_.compare(static_cast<std::size_t>(std::max(mark.pos, 0)), value.size(), value) != 0)
      refuse(place(mark), "a value without quotes must stand on one line");
    add({.kind = plain ? YamlNode::Kind::plain : YamlNode::Kind::quoted, .mark = place(mark), .text = value});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::sequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

  /// yaml-cpp's own complaint; where a bracket stays open it is the bracket that is shown.
  void refuse_syntax(const YAML::Exception& error) {
    const bool open = error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW || error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW;
    if (open && !stack_.empty()) {
      const bool map = stack_.back().node.kind == YamlNode::Kind::map;
      document_.problems.push_back(
          {stack_.back().node.mark, map ? "this map is not closed" : "this list is not closed"});
    } else {
      document_.problems.push_back({place(error.mark), "not YAML: " + error.msg});
    }
  }

  TextMark start() const { return start_; }

 private:
  struct Open {
    YamlNode node;
    std::optional<YamlEntry> entry;  ///< of a map: the key that waits for its value
  };

  void refuse_properties(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag) {
    if (anchor != 0) refuse(place(mark), "anchors (&name) are not allowed; write the value out where it is needed");
    const auto pos = static_cast<std::size_t>(std::max(mark.pos, 0));
    const bool written = tag == "!" && pos < text_.size() && (text_[pos] == '!' || text_[pos] == '&');
    if (written || (tag != "?" && tag != "!" && !tag.empty()))
      refuse(place(mark), "tags (!name) are not allowed; a value's type follows from its key");
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuse_properties(mark, anchor, tag);
    if (key_is_due()) {
      refuse(place(mark), "a key must be a plain word, not a list or a map; is a bracket left open?");
      throw Stop{};
    }
    if (static_cast<int>(stack_.size()) >= kMaxYamlDepth) {
      refuse(place(mark), fmt::format("nested deeper than {} levels", kMaxYamlDepth));
      throw Stop{};
    }
    stack_.push_back({{.kind = kind, .mark = place(mark)}, std::nullopt});
  }

  void close() {
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    add(std::move(node));
  }

  bool key_is_due() const {
    return !stack_.empty() && stack_.back().node.kind == YamlNode::Kind::map && !stack_.back().entry;
  }

  void add(YamlNode node) {
    if (stack_.empty()) {
      document_.root = std::move(node);
    } else if (stack_.back().node.kind == YamlNode::Kind::sequence) {
      stack_.back().node.items.push_back(std::move(node));
    } else if (key_is_due()) {
      if (node.kind == YamlNode::Kind::null) refuse(node.mark, "a key is missing before ':'");
      if (node.text == "<<" && node.kind == YamlNode::Kind::plain)
        refuse(node.mark, "merge keys (<<) are not allowed; write the keys out");
      stack_.back().entry = YamlEntry{std::move(node.text), node.mark, {}};
    } else {
      std::vector<YamlEntry>& entries = stack_.back().node.entries;
      YamlEntry entry = std::move(*stack_.back().entry);
      stack_.back().entry.reset();
      entry.value = std::move(node);
      const auto first = std::ranges::find(entries, entry.key, &YamlEntry::key);
      if (first != entries.end())
        refuse(entry.key_mark, fmt::format("duplicate key '{}', first given in line {} column {}", entry.key,
                                           first->key_mark.line, first->key_mark.column));
      else
        entries.push_back(std::move(entry));
    }
  }

  const std::string& text_;
  YamlDocument& document_;
  std::vector<Open> stack_;
  TextMark start_;
};

/// Receives what follows the first document, of which only the place is wanted.
class Ignore : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { throw mark; }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { throw mark; }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string&) override { throw mark; }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    throw mark;
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    throw mark;
  }
  void OnMapEnd() override {}
};

/// Problems of the bytes themselves; with one of them yaml-cpp is not asked (it ends its input at the byte 4, say).
void check_characters(YamlDocument& document) {
  for (std::size_t i = 0; i < document.lines.size() && document.problems.size() < kMaxProblems; ++i) {
    const std::string& line = document.lines[i];
    const auto at = [&](std::size_t byte) {
      return TextMark{static_cast<int>(i) + 1, count_characters(std::string_view(line).substr(0, byte)) + 1};
    };
    if (const auto bad = find_invalid_utf8(line)) {
      document.problems.push_back({at(*bad), fmt::format("not UTF-8: byte 0x{:02x}; save the file as UTF-8",
                                                         static_cast<unsigned char>(line[*bad]))});
      continue;
    }
    const auto found =
        std::ranges::find_if(line, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
    if (found != line.end()) {
      const TextMark mark = at(static_cast<std::size_t>(found - line.begin()));
      document.problems.push_back(
          {mark, *found == '\t' ? std::string("tabs are not allowed; indent with spaces")
                                : fmt::format("control character 0x{:02x}", static_cast<unsigned char>(*found))});
    }
    if (line.starts_with('%')) document.problems.push_back({at(0), "YAML directives (%) are not allowed"});
  }
}

/// Index of the first line from `begin` on that ends a document, or the number of lines.
std::size_t find_separator(const std::vector<std::string>& lines, std::size_t begin) {
  while (begin < lines.size() && !lines[begin].starts_with("---") && !lines[begin].starts_with("...")) ++begin;
  return begin;
}

void parse(const std::string& text, YamlDocument& document) {
  TreeBuilder builder(text, document);
  try {
    std::istringstream input(text);
    YAML::Parser parser(input);
    if (!parser.HandleNextDocument(builder)) {
      builder.refuse({1, 1}, "empty: nothing but comments and blank lines");
      return;
    }
    try {
      Ignore rest;
      if (parser.HandleNextDocument(rest)) builder.refuse({1, 1}, "more than one document");
    } catch (const YAML::Mark& mark) {
      const std::size_t separator = find_separator(document.lines, static_cast<std::size_t>(builder.start().line));
      if (separator < document.lines.size())
        builder.refuse({static_cast<int>(separator) + 1, 1}, "more than one document (---); a deck is one");
      else
        builder.refuse(builder.place(mark),
                       "does not belong to what stands above: it would be lost; check the indentation");
    }
  } catch (const YAML::Exception& error) {
    builder.refuse_syntax(error);
  } catch (const Stop&) {
    return;  // the problem is noted
  }
}

}  // namespace

YamlDocument parse_yaml(std::string_view bytes) {
  YamlDocument document;
  if (bytes.size() > kMaxYamlSize) {
    document.problems.push_back(
        {{1, 1}, fmt::format("{} bytes are more than the {} allowed", bytes.size(), kMaxYamlSize)});
    return document;
  }
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
  std::string text;
  text.reserve(bytes.size() + 1);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (!(bytes[i] == '\r' && i + 1 < bytes.size() && bytes[i + 1] == '\n')) text += bytes[i];
  document.lines = split_lines(text);
  check_characters(document);
  if (document.problems.empty()) parse(text, document);
  return document;
}

}  // namespace pipefill
