#include "storage/yaml_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>

namespace pipefill {
namespace {

constexpr std::size_t kMaxNumberLength = 64;

bool matches(const std::string& text, const std::regex& pattern) {
  return text.size() <= kMaxNumberLength && std::regex_match(text, pattern);
}

std::regex ignoring_case(const char* pattern) { return std::regex(pattern, std::regex::icase); }

bool is_decimal_integer(const std::string& text) {
  static const std::regex pattern("[-+]?(0|[1-9][0-9]*)");
  return matches(text, pattern);
}

bool is_decimal_number(const std::string& text) {
  static const std::regex pattern = ignoring_case(R"([-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)(e[-+]?[0-9]+)?)");
  return matches(text, pattern);
}

/// Any spelling of a number in YAML 1.1 or 1.2: other bases, underscores, base 60, infinity.
bool looks_like_number(const std::string& text) {
  static const std::regex other_base = ignoring_case("[-+]?0(b[01_]+|o[0-7_]+|x[0-9a-f_]+)");
  static const std::regex decimal =
      ignoring_case(R"([-+]?([0-9][0-9_]*(:[0-5]?[0-9])*(\.[0-9_]*)?|\.[0-9_]+)(e[-+]?[0-9]+)?)");
  static const std::regex special = ignoring_case(R"([-+]?\.(inf|nan))");
  return matches(text, other_base) || matches(text, decimal) || matches(text, special);
}

/// true, no, null and their kind.
bool looks_like_constant(const std::string& text) {
  static const std::regex pattern = ignoring_case("y|yes|n|no|true|false|on|off|~|null");
  return matches(text, pattern);
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
