// Reading the parameters' text.
#include "fill_jobs/job_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/error.hpp"
#include "base/text.hpp"
#include "model/parameters.hpp"

namespace pipefill {
namespace {

template <class T>
T parse(const std::string& name, const std::string& text, T least, T most, const char* what) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= least && value <= most))
    throw DeckError(fmt::format("with.{} is '{}'; it needs {} from {} to {}", name, text, what, least, most));
  return value;
}

}  // namespace

JobParameters::JobParameters(const pipefill_fill_setup& setup) : base_directory_(setup.base_directory) {
  std::string all =
      fmt::format("seed {} threads {} shard {} of {}", setup.seed, setup.threads, setup.shard, setup.shards);
  for (std::uint64_t i = 0; i < setup.parameter_count; ++i) {
    values_.emplace_back(setup.parameters[i].name, setup.parameters[i].value);
    all += fmt::format("\n{}\t{}", values_.back().first, values_.back().second);
  }
  identity_ = name_hash(all);
}

bool JobParameters::has(const std::string& name) const {
  return std::any_of(values_.begin(), values_.end(), [&](const auto& v) { return v.first == name; });
}

std::vector<std::string> JobParameters::list(const std::string& name) {
  asked_.insert(name);
  std::vector<std::string> found;
  for (const auto& [key, value] : values_)
    if (key == name) found.push_back(value);
  return found;
}

std::optional<std::string> JobParameters::only(const std::string& name) {
  const std::vector<std::string> found = list(name);
  if (found.size() > 1) throw DeckError(fmt::format("with.{} is a list of {}; it takes one value", name, found.size()));
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::optional<std::string> JobParameters::text(const std::string& name) { return only(name); }

std::int64_t JobParameters::integer(const std::string& name, std::int64_t otherwise, std::int64_t least,
                                    std::int64_t most) {
  const auto value = only(name);
  return value ? parse(name, *value, least, most, "an integer") : otherwise;
}

std::vector<std::int64_t> JobParameters::integers(const std::string& name, std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> values;
  for (const std::string& value : list(name)) values.push_back(parse(name, value, least, most, "integers"));
  return values;
}

double JobParameters::number(const std::string& name, double otherwise, double least, double most) {
  const auto value = only(name);
  return value ? parse(name, *value, least, most, "a number") : otherwise;
}

bool JobParameters::truth(const std::string& name, bool otherwise) {
  const auto value = only(name);
  if (!value) return otherwise;
  if (*value != "true" && *value != "false")
    throw DeckError(fmt::format("with.{} is '{}'; it needs true or false", name, *value));
  return *value == "true";
}

std::string JobParameters::path(const std::string& value) const {
  return (std::filesystem::path(base_directory_) / value).lexically_normal().string();
}

void JobParameters::refuse_others() const {
  const std::vector<std::string> known(asked_.begin(), asked_.end());
  for (const auto& [key, value] : values_) {
    if (asked_.contains(key)) continue;
    const auto near = nearest(key, known);
    throw DeckError(fmt::format("with.{} is not known to this kind of job{}", key,
                                near ? fmt::format("; did you mean {}?", *near) : ""));
  }
}

}  // namespace pipefill
