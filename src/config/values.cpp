// Between the members of RunConfig and their text in a deck, by type: assign, value_text, expectation, check_range.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "base/text.hpp"
#include "config/keys.hpp"
#include "storage/yaml_value.hpp"

namespace pipefill {
namespace {

struct Unit {
  const char* name;
  std::int64_t size;
};
constexpr std::array kTimeUnits{Unit{"h", 3'600'000'000'000},
                                Unit{"min", 60'000'000'000},
                                Unit{"s", 1'000'000'000},
                                Unit{"ms", 1'000'000},
                                Unit{"us", 1000},
                                Unit{"ns", 1}};
constexpr std::array kSizeUnits{Unit{"TiB", std::int64_t{1} << 40}, Unit{"GiB", std::int64_t{1} << 30},
                                Unit{"MiB", 1 << 20}, Unit{"KiB", 1 << 10}, Unit{"B", 1}};

/// In the largest unit that keeps the number whole.
template <std::size_t N>
std::string with_unit(std::int64_t count, const std::array<Unit, N>& units) {
  const auto unit = std::ranges::find_if(units, [count](const Unit& u) { return count % u.size == 0; });
  return fmt::format("{}{}", count / unit->size, unit->name);
}

std::string write_time(double seconds) {
  return with_unit(static_cast<std::int64_t>(std::llround(seconds * 1e9)), kTimeUnits);
}
std::string write_size(double bytes) { return with_unit(static_cast<std::int64_t>(bytes), kSizeUnits); }
std::string write_number(double value) {
  const bool whole = std::abs(value) < 1e15 && value == std::floor(value);
  return whole ? fmt::format("{}", static_cast<std::int64_t>(value)) : fmt::format("{}", value);
}

/// "of at least 1", "from 0 to 0.9", "above 0 and at most 1"; empty where everything is allowed.
template <class Write>
std::string range_text(const Range& range, Write write) {
  const bool low = std::isfinite(range.low), high = std::isfinite(range.high);
  const bool closed = range.at_low == Bound::included && range.at_high == Bound::included;
  if (low && high && closed) return fmt::format(" from {} to {}", write(range.low), write(range.high));
  std::string text;
  if (low) text += (range.at_low == Bound::included ? " of at least " : " above ") + write(range.low);
  if (high)
    text += fmt::format("{}{} {}", low ? " and" : "", range.at_high == Bound::included ? " at most" : " below",
                        write(range.high));
  return text;
}

bool inside(const Range& range, double value) {
  const bool above = range.at_low == Bound::included ? value >= range.low : value > range.low;
  return above && (range.at_high == Bound::included ? value <= range.high : value < range.high);
}

Field field_of(const Key& key, const RunConfig& config) {
  return key.field(const_cast<RunConfig&>(config));  // read only: no caller below writes through it
}

bool is_word(const Key& key, const YamlNode& value) {
  return !key.word.empty() && value.kind == YamlNode::Kind::plain && value.text == key.word;
}

/// Ends a message: the value as it came, against what the key takes.
std::string refused(const Key& key, const std::string& got) {
  return fmt::format("expected {}, got {}", expectation(key), got);
}

std::string near_name(const std::string& word, std::vector<std::string> names) {
  const auto best = nearest(word, names);
  return best ? fmt::format("; did you mean '{}'?", *best) : "";
}

template <class T>
std::string assign_integer(const Key& key, T& member, const YamlNode& value) {
  const Read<std::int64_t> read = read_integer(value);
  if (!read.value)
    return key.word.empty() ? read.wrong : refused(key, describe(value)) + near_name(value.text, {key.word});
  if (!inside(key.range, static_cast<double>(*read.value))) return refused(key, fmt::format("{}", *read.value));
  member = static_cast<T>(*read.value);  // the ranges in the table lie within the members' types
  return "";
}

/// Time and size: a number with its unit, plain or quoted.
template <class T, class Parse, class Measure>
std::string assign_quantity(const Key& key, T& member, const YamlNode& value, Parse parse, Measure measure) {
  const bool scalar = value.kind == YamlNode::Kind::plain || value.kind == YamlNode::Kind::quoted;
  const bool has_unit = scalar && value.text.find_first_not_of("0123456789.+-eE_ ") != std::string::npos;
  const std::optional<T> parsed = has_unit ? parse(value.text) : std::nullopt;
  if (!parsed) return refused(key, describe(value)) + (scalar && !has_unit ? "; its unit is missing" : "");
  if (!inside(key.range, measure(*parsed))) return refused(key, describe(value));
  member = *parsed;
  return "";
}

template <class T, class One>
std::string assign_list(const Key& key, std::vector<T>& member, const YamlNode& value, One one) {
  if (value.kind != YamlNode::Kind::sequence) return refused(key, describe(value));
  std::vector<T> items;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    T item{};
    if (const std::string wrong = one(item, value.items[i]); !wrong.empty())
      return fmt::format("item {}: {}", i + 1, wrong);
    items.push_back(std::move(item));
  }
  member = std::move(items);
  return "";
}

/// The position of the value in Key::names, or names.end().
auto find_name(const Key& key, const YamlNode& value) {
  const bool scalar = value.kind == YamlNode::Kind::plain || value.kind == YamlNode::Kind::quoted;
  return scalar ? std::ranges::find(key.names, value.text) : key.names.end();
}

std::string assign_text(std::string& member, const YamlNode& value) {
  Read<std::string> read = read_text(value);
  if (!read.value) return read.wrong;
  if (read.value->empty()) return "expected text, got none";
  if (read.value->find('\0') != std::string::npos) return "expected text without the character NUL";
  member = std::move(*read.value);
  return "";
}

std::string assign_enum(const Key& key, const EnumField& member, const YamlNode& value) {
  const auto found = find_name(key, value);
  if (found == key.names.end()) return refused(key, describe(value)) + near_name(value.text, key.names);
  member.set(static_cast<int>(found - key.names.begin()));
  return "";
}

double measure_time(Nanoseconds time) { return to_seconds(time); }
double measure_size(Bytes size) { return static_cast<double>(size.count); }

}  // namespace

std::string assign(const Key& key, RunConfig& config, const YamlNode& value) {
  if (value.kind == YamlNode::Kind::null) return fmt::format("expected {}, got nothing", expectation(key));
  return std::visit(
      [&](auto member) -> std::string {
        using Member = decltype(member);
        if constexpr (std::is_same_v<Member, EnumField>) {
          return assign_enum(key, member, value);
        } else {
          if (is_word(key, value)) return *member = {}, "";
          if constexpr (std::is_same_v<Member, double*>) {
            const Read<double> read = read_number(value);
            if (!read.value) return read.wrong;
            if (!inside(key.range, *read.value)) return refused(key, value.text);
            return *member = *read.value, "";
          } else if constexpr (std::is_same_v<Member, bool*>) {
            const Read<bool> read = read_bool(value);
            return read.value ? (*member = *read.value, "") : read.wrong;
          } else if constexpr (std::is_same_v<Member, std::string*>) {
            if (!key.names.empty() && find_name(key, value) == key.names.end())
              return refused(key, describe(value)) + near_name(value.text, key.names);
            return assign_text(*member, value);
          } else if constexpr (std::is_same_v<Member, Nanoseconds*>) {
            return assign_quantity(key, *member, value, parse_duration, measure_time);
          } else if constexpr (std::is_same_v<Member, Bytes*>) {
            return assign_quantity(key, *member, value, parse_bytes, measure_size);
          } else if constexpr (std::is_same_v<Member, std::vector<int>*>) {
            return assign_list(key, *member, value, [&](int& item, const YamlNode& node) {
              const Read<std::int64_t> read = read_integer(node);
              if (!read.value) return read.wrong;
              if (!inside(key.range, static_cast<double>(*read.value)))
                return fmt::format("{} is not{}", *read.value, range_text(key.range, write_number));
              item = static_cast<int>(*read.value);
              return std::string{};
            });
          } else if constexpr (std::is_same_v<Member, std::vector<std::string>*>) {
            return assign_list(key, *member, value, assign_text);
          } else {
            return assign_integer(key, *member, value);
          }
        }
      },
      key.field(config));
}

std::string value_text(const Key& key, const RunConfig& config) {
  return std::visit(
      [&](auto member) -> std::string {
        using Member = decltype(member);
        if constexpr (std::is_same_v<Member, EnumField>) {
          return key.names.at(static_cast<std::size_t>(member.get()));
        } else {
          if (!key.word.empty() && *member == std::remove_pointer_t<Member>{}) return key.word;
          if constexpr (std::is_same_v<Member, std::string*>)
            return *member == key.word ? "\"" + *member + "\"" : write_text(*member);
          else if constexpr (std::is_same_v<Member, Nanoseconds*>)
            return with_unit(member->count(), kTimeUnits);
          else if constexpr (std::is_same_v<Member, Bytes*>)
            return with_unit(member->count, kSizeUnits);
          else if constexpr (std::is_same_v<Member, std::vector<int>*>)
            return fmt::format("[{}]", fmt::join(*member, ", "));
          else if constexpr (std::is_same_v<Member, std::vector<std::string>*>) {
            std::vector<std::string> items;
            for (const std::string& item : *member) items.push_back(write_text(item));
            return fmt::format("[{}]", fmt::join(items, ", "));
          } else {
            return fmt::format("{}", *member);
          }
        }
      },
      field_of(key, config));
}

std::string expectation(const Key& key) {
  RunConfig any;
  const std::string text = std::visit(
      [&](auto member) -> std::string {
        using Member = decltype(member);
        if constexpr (std::is_same_v<Member, EnumField>)
          return fmt::format("one of {}", fmt::join(key.names, ", "));
        else if constexpr (std::is_same_v<Member, double*>)
          return "a number" + range_text(key.range, write_number);
        else if constexpr (std::is_same_v<Member, bool*>)
          return "true or false";
        else if constexpr (std::is_same_v<Member, std::string*>)
          return key.names.empty() ? "text" : fmt::format("one of {}", fmt::join(key.names, ", "));
        else if constexpr (std::is_same_v<Member, Nanoseconds*>)
          return "a time such as 30s, 250ms or 3:50:00," + range_text(key.range, write_time);
        else if constexpr (std::is_same_v<Member, Bytes*>)
          return "a size such as 512MiB or 2GB," + range_text(key.range, write_size);
        else if constexpr (std::is_same_v<Member, std::vector<int>*>)
          return "a list of integers" + range_text(key.range, write_number);
        else if constexpr (std::is_same_v<Member, std::vector<std::string>*>)
          return "a list of texts";
        else
          return "an integer" + range_text(key.range, write_number);
      },
      key.field(any));
  return key.word.empty() ? text : fmt::format("{}, or {}", text, key.word);
}

std::string check_range(const Key& key, const RunConfig& config) {
  const YamlDocument written = parse_yaml(value_text(key, config));
  RunConfig scratch;
  return written.problems.empty() ? assign(key, scratch, written.root) : written.problems.front().text;
}

}  // namespace pipefill
