#include "worker/job_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "storage/atomic_file.hpp"
#include "storage/strict_yaml.hpp"
#include "storage/yaml_value.hpp"

namespace pipefill {
namespace {

constexpr std::size_t kMaxProblems = 50;
constexpr std::int64_t kMaxParameters = 100'000;

/// One key of a map: how its value is taken; returns what is wrong, or nothing.
struct JobKey {
  const char* name;
  std::function<std::string(const YamlNode&)> take;
};

class JobReader {
 public:
  JobReader(const std::string& file, const std::vector<std::string>& kinds) : file_(file), kinds_(kinds) {}
  FillJobSpec read(std::string_view text);

 private:
  void read_map(const YamlNode& map, const std::string& prefix, const std::vector<JobKey>& keys);
  void read_parameters(const YamlNode& map);
  void add_parameter(const std::string& name, const YamlNode& node);
  void problem(TextMark mark, const std::string& key, const std::string& what);
  std::vector<JobKey> job_keys();
  std::vector<JobKey> limit_keys();

  std::string file_;
  const std::vector<std::string>& kinds_;
  FillJobSpec spec_;
  std::vector<std::string> problems_;
};

std::string take_text(std::string& to, const YamlNode& node) {
  Read<std::string> read = read_text(node);
  if (!read.value) return read.wrong;
  if (read.value->empty()) return "expected text, got none";
  if (read.value->find('\0') != std::string::npos) return "expected text without the character NUL";
  to = std::move(*read.value);
  return "";
}

template <class T>
std::string take_integer(T& to, const YamlNode& node, std::int64_t low, std::int64_t high) {
  const Read<std::int64_t> read = read_integer(node);
  if (!read.value) return read.wrong;
  if (*read.value < low || *read.value > high)
    return fmt::format("expected an integer from {} to {}, got {}", low, high, *read.value);
  to = static_cast<T>(*read.value);
  return "";
}

bool scalar(const YamlNode& node) { return node.kind == YamlNode::Kind::plain || node.kind == YamlNode::Kind::quoted; }

std::string take_size(Bytes& to, const YamlNode& node) {
  const std::optional<Bytes> size = scalar(node) ? parse_bytes(node.text) : std::nullopt;
  const bool has_unit = scalar(node) && !node.text.empty() && node.text.back() == 'B';
  if (!size || !has_unit || size->count <= 0)
    return fmt::format("expected a size with its unit, such as 512MiB, got {}", describe(node));
  to = *size;
  return "";
}

std::string take_time(Nanoseconds& to, const YamlNode& node) {
  const std::optional<Nanoseconds> time = scalar(node) ? parse_duration(node.text) : std::nullopt;
  if (!time || time->count() <= 0)
    return fmt::format("expected a time with its unit, such as 30s or 2h, got {}", describe(node));
  to = *time;
  return "";
}

std::string take_name(std::string& to, const YamlNode& node) {
  if (std::string wrong = take_text(to, node); !wrong.empty()) return wrong;
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  if (to.size() <= 64 && std::isalnum(static_cast<unsigned char>(to.front())) != 0 && std::ranges::all_of(to, fits))
    return "";
  to.clear();
  return "expected at most 64 letters, digits and . _ -, beginning with a letter or digit (it names a directory)";
}

std::string take_kind(std::string& to, const std::vector<std::string>& kinds, const YamlNode& node) {
  if (std::string wrong = take_text(to, node); !wrong.empty()) return wrong;
  if (kinds.empty() || std::ranges::find(kinds, to) != kinds.end()) return "";
  const auto near = nearest(to, kinds);
  return fmt::format("unknown kind '{}'; {}known are {}", to, near ? fmt::format("did you mean '{}'? ", *near) : "",
                     fmt::join(kinds, ", "));
}

std::vector<JobKey> JobReader::job_keys() {
  return {
      {"name", [this](const YamlNode& n) { return take_name(spec_.name, n); }},
      {"kind", [this](const YamlNode& n) { return take_kind(spec_.kind, kinds_, n); }},
      {"with", [this](const YamlNode& n) { return read_parameters(n), std::string{}; }},
      {"priority",
       [this](const YamlNode& n) {
         const Read<double> read = read_number(n);
         return read.value ? (spec_.priority = *read.value, std::string{}) : read.wrong;
       }},
      {"deadline",
       [this](const YamlNode& n) {
         Nanoseconds time{0};
         std::string wrong = take_time(time, n);
         if (wrong.empty()) spec_.deadline = time;
         return wrong;
       }},
      {"owner", [this](const YamlNode& n) { return take_text(spec_.owner, n); }},
      {"limits",
       [this](const YamlNode& n) {
         if (n.kind != YamlNode::Kind::map) return fmt::format("expected keys with values, got {}", describe(n));
         return read_map(n, "limits.", limit_keys()), std::string{};
       }},
      {"configuration",
       [this](const YamlNode& n) {
         std::string wrong = take_text(spec_.configuration, n);
         if (spec_.configuration == "auto") spec_.configuration.clear();
         return spec_.configuration.size() < 64 ? wrong : std::string("expected at most 63 characters");
       }},
      {"shards", [this](const YamlNode& n) { return take_integer(spec_.shards, n, 1, 1'000'000); }},
      {"seed", [this](const YamlNode& n) { return take_integer(spec_.seed, n, 0, INT64_MAX); }},
  };
}

std::vector<JobKey> JobReader::limit_keys() {
  FillLimits& limits = spec_.limits;
  return {
      {"memory", [&limits](const YamlNode& n) { return take_size(limits.memory, n); }},
      {"disk", [&limits](const YamlNode& n) { return take_size(limits.disk, n); }},
      {"output", [&limits](const YamlNode& n) { return take_size(limits.output, n); }},
      {"processes", [&limits](const YamlNode& n) { return take_integer(limits.processes, n, 1, 1'000'000); }},
      {"cpu", [&limits](const YamlNode& n) { return take_time(limits.cpu, n); }},
      {"tries", [&limits](const YamlNode& n) { return take_integer(limits.tries, n, 1, 1000); }},
  };
}

void JobReader::problem(TextMark mark, const std::string& key, const std::string& what) {
  problems_.push_back(
      fmt::format("{}:{}:{}: {}{}{}", file_, mark.line, mark.column, key, key.empty() ? "" : ": ", what));
}

void JobReader::read_map(const YamlNode& map, const std::string& prefix, const std::vector<JobKey>& keys) {
  for (const YamlEntry& entry : map.entries) {
    const auto key = std::ranges::find_if(keys, [&](const JobKey& k) { return entry.key == k.name; });
    if (key == keys.end()) {
      std::vector<std::string> names;
      for (const JobKey& k : keys) names.emplace_back(k.name);
      const auto near = nearest(entry.key, names);
      problem(entry.key_mark, prefix + entry.key,
              near ? fmt::format("unknown key; did you mean '{}'?", prefix + *near)
                   : fmt::format("unknown key; known are {}", fmt::join(names, ", ")));
    } else if (entry.value.kind == YamlNode::Kind::null) {
      problem(entry.key_mark, prefix + entry.key, "has no value");
    } else if (const std::string wrong = key->take(entry.value); !wrong.empty()) {
      problem(entry.value.mark, prefix + entry.key, wrong);
    }
  }
}

void JobReader::add_parameter(const std::string& name, const YamlNode& node) {
  if (!scalar(node))
    return problem(node.mark, "with." + name,
                   fmt::format("expected a value or a list of values, got {}", describe(node)));
  if (node.text.find('\0') != std::string::npos)
    return problem(node.mark, "with." + name, "expected text without the character NUL");
  if (static_cast<std::int64_t>(spec_.parameters.size()) == kMaxParameters)
    return problem(node.mark, "with." + name, fmt::format("more than {} values", kMaxParameters));
  spec_.parameters.emplace_back(name, node.text);
}

void JobReader::read_parameters(const YamlNode& map) {
  if (map.kind != YamlNode::Kind::map)
    return problem(map.mark, "with", fmt::format("expected keys with values, got {}", describe(map)));
  for (const YamlEntry& entry : map.entries) {
    if (entry.value.kind == YamlNode::Kind::null) problem(entry.key_mark, "with." + entry.key, "has no value");
    if (entry.value.kind == YamlNode::Kind::sequence)
      for (const YamlNode& item : entry.value.items) add_parameter(entry.key, item);
    else if (entry.value.kind != YamlNode::Kind::null)
      add_parameter(entry.key, entry.value);
  }
}

FillJobSpec JobReader::read(std::string_view text) {
  const YamlDocument document = parse_yaml(text);
  for (const YamlProblem& p : document.problems) problem(p.mark, "", p.text);
  if (document.root.kind == YamlNode::Kind::map)
    read_map(document.root, "", job_keys());
  else if (problems_.empty())
    problem(document.root.mark, "", "expected keys with values: name, kind, with, ...");
  if (problems_.empty()) {
    for (const auto& [key, value] : {std::pair{"name", &spec_.name}, std::pair{"kind", &spec_.kind}})
      if (value->empty()) problem({1, 1}, key, "is missing; every job needs it");
  }
  if (problems_.empty()) return std::move(spec_);
  const std::size_t more = problems_.size() > kMaxProblems ? problems_.size() - kMaxProblems : 0;
  problems_.resize(problems_.size() - more);
  throw DeckError(fmt::format("{}{}", fmt::join(problems_, "\n"), more ? fmt::format("\n... and {} more", more) : ""));
}

}  // namespace

FillJobSpec parse_fill_job(std::string_view text, const std::string& file, const std::vector<std::string>& kinds) {
  return JobReader(file, kinds).read(text);
}

FillJobSpec read_fill_job(const std::string& path, const std::vector<std::string>& kinds) {
  return parse_fill_job(read_file(path, kMaxJobFile), path, kinds);
}

}  // namespace pipefill
