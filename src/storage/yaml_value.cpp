#include "storage/yaml_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace pipefill {
namespace {

constexpr std::string_view kDigits = "0123456789";

/// Walks over a word from its front; every take says whether, or how many, it took.
struct Cursor {
  std::string_view rest;

  bool take(std::string_view one_of) {
    if (rest.empty() || one_of.find(rest.front()) == std::string_view::npos) return false;
    rest.remove_prefix(1);
    return true;
  }
  std::size_t take_all(std::string_view all_of) {
    const std::size_t count = std::min(rest.find_first_not_of(all_of), rest.size());
    rest.remove_prefix(count);
    return count;
  }
  bool take_word(std::string_view word) {
    if (!rest.starts_with(word)) return false;
    rest.remove_prefix(word.size());
    return true;
  }
  bool done() const { return rest.empty(); }
};

std::string in_lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

/// 0, or digits that do not begin with 0.
bool take_integer(Cursor& cursor) {
  return cursor.take("0") || (cursor.take("123456789") && (cursor.take_all(kDigits), true));
}

/// "", or e, a sign perhaps, digits.
bool ends_with_exponent(Cursor cursor) {
  if (cursor.take("eE")) {
    cursor.take("+-");
    if (cursor.take_all(kDigits) == 0) return false;
  }
  return cursor.done();
}

bool is_decimal_integer(std::string_view text) {
  Cursor cursor{text};
  cursor.take("+-");
  return take_integer(cursor) && cursor.done();
}

bool is_decimal_number(std::string_view text) {
  Cursor cursor{text};
  cursor.take("+-");
  const bool whole = take_integer(cursor);
  const bool fraction = cursor.take(".") && cursor.take_all(kDigits) > 0;
  return (whole || fraction) && ends_with_exponent(cursor);
}

/// Any spelling of a number in YAML 1.1 or 1.2: other bases, underscores, base 60, infinity.
bool looks_like_number(const std::string& text) {
  const std::string lower = in_lower_case(text);
  Cursor cursor{lower};
  cursor.take("+-");
  if (cursor.rest == ".inf" || cursor.rest == ".nan") return true;
  Cursor based = cursor;
  if (based.take_word("0x")) return based.take_all("0123456789abcdef_") > 0 && based.done();
  if (based.take_word("0o")) return based.take_all("01234567_") > 0 && based.done();
  if (based.take_word("0b")) return based.take_all("01_") > 0 && based.done();
  const bool whole = cursor.take(kDigits) && (cursor.take_all("0123456789_"), true);
  while (whole && cursor.take(":"))
    if (cursor.take_all(kDigits) == 0) return false;
  const bool fraction = cursor.take(".") && cursor.take_all("0123456789_") > 0;
  return (whole || fraction) && ends_with_exponent(cursor);
}

/// true, no, null and their kind.
bool looks_like_constant(const std::string& text) {
  constexpr std::array kWords{"y", "yes", "n", "no", "true", "false", "on", "off", "~", "null"};
  return std::ranges::find(kWords, in_lower_case(text)) != kWords.end();
}

std::string shorten(const std::string& text) {
  if (text.size() <= 40) return text;
  std::size_t end = 37;
  while (end > 0 && (static_cast<unsigned char>(text[end]) >> 6) == 2) --end;
  return text.substr(0, end) + "...";
}

std::string hint_for_number(const YamlNode& node) {
  const std::string& text = node.text;
  if (node.kind == YamlNode::Kind::quoted && is_decimal_number(text)) return "; without the quotes it is a number";
  if (node.kind != YamlNode::Kind::plain) return "";
  if (text.find('_') != std::string::npos && looks_like_number(text)) return "; write it without '_'";
  const std::size_t first = text.find_first_not_of("+-");
  if (first == std::string::npos || text[first] != '0' || !looks_like_number(text)) return "";
  const bool digits = first + 1 < text.size() && text[first + 1] >= '0' && text[first + 1] <= '9';
  return digits ? "; a leading zero means octal to some programs, leave it out" : "; write it in decimal";
}

template <class T>
Read<T> wrong(const YamlNode& node, const char* expected, const std::string& hint = "") {
  return {std::nullopt, fmt::format("expected {}, got {}{}", expected, describe(node), hint)};
}

}  // namespace

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::plain:
      return shorten(node.text);
    case YamlNode::Kind::quoted:
      return fmt::format("the text \"{}\"", shorten(node.text));
    case YamlNode::Kind::sequence:
      return fmt::format("a list of {}", node.items.size());
    case YamlNode::Kind::map:
      return "a map";
  }
  return "";
}

Read<std::int64_t> read_integer(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::plain || !is_decimal_integer(node.text)) {
    const bool number = node.kind == YamlNode::Kind::plain && is_decimal_number(node.text);
    return wrong<std::int64_t>(node, "an integer",
                               number ? "; write it without point and exponent" : hint_for_number(node));
  }
  const char* begin = node.text.data() + (node.text.front() == '+' ? 1 : 0);
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(begin, node.text.data() + node.text.size(), value);
  if (status != std::errc{}) return wrong<std::int64_t>(node, "an integer of at most 63 bits");
  return {value, ""};
}

Read<double> read_number(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::plain || !is_decimal_number(node.text))
    return wrong<double>(node, "a finite number", hint_for_number(node));
  const char* begin = node.text.data() + (node.text.front() == '+' ? 1 : 0);
  double value = 0;
  const auto [end, status] = std::from_chars(begin, node.text.data() + node.text.size(), value);
  if (status != std::errc{} || !std::isfinite(value))
    return wrong<double>(node, "a number that fits 64-bit floating point");
  return {value, ""};
}

Read<bool> read_bool(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::plain && (node.text == "true" || node.text == "false"))
    return {node.text == "true", ""};
  return wrong<bool>(node, "true or false");
}

Read<std::string> read_text(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::quoted) return {node.text, ""};
  if (node.kind != YamlNode::Kind::plain) return wrong<std::string>(node, "text");
  if (looks_like_number(node.text) || looks_like_constant(node.text))
    return wrong<std::string>(node, "text", fmt::format("; write \"{}\" with the quotes", shorten(node.text)));
  return {node.text, ""};
}

std::string write_text(const std::string& text) {
  const bool simple = !text.empty() &&
                      text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+-") ==
                          std::string::npos &&
                      text.front() != '-' && text.front() != '.';
  if (simple && read_text({.kind = YamlNode::Kind::plain, .mark = {}, .text = text}).value) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 32 || c == 127)
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      quoted += c;
  }
  return quoted + "\"";
}

}  // namespace pipefill
