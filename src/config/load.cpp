#include "config/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/check.hpp"
#include "config/deck_error_list.hpp"
#include "config/embedded_deck.hpp"
#include "config/keys.hpp"

namespace pipefill {
namespace {

/// One run of loading: the config as it fills, what is wrong so far, and where each key was set.
class Loader {
 public:
  explicit Loader(std::string name) : name_(std::move(name)) {}

  void read_file(std::string_view text);
  void read_override(const std::string& argument);
  /// Checks what the keys say together, unless one of them was wrong already, and resolves run.directory.
  RunConfig finish();

 private:
  DeckPlace in_file(TextMark mark) const {
    const std::size_t line = static_cast<std::size_t>(mark.line) - 1;
    return {name_, mark, line < lines_.size() ? lines_[line] : std::string{}};
  }
  void read_section(const YamlEntry& section);
  void set(const Key& key, const YamlNode& value, const DeckPlace& place);
  /// " unknown key; did you mean ...?" with the place of a right key in the wrong section told too.
  static std::string unknown(const std::string& path);

  std::string name_;
  std::vector<std::string> lines_;
  RunConfig config_;
  DeckErrorList errors_;
  std::map<std::string, DeckPlace> places_;
};

std::string Loader::unknown(const std::string& path) {
  std::vector<std::string> all, sections = deck_sections();
  std::string elsewhere;
  const std::string section = path.substr(0, path.find('.')), name = path.substr(path.find('.') + 1);
  const bool dotted = path.find('.') != std::string::npos;
  for (const Key& key : deck_keys()) {
    if (key.section() == section) all.push_back(key.name());
    if (key.name() == name && elsewhere.empty()) elsewhere = key.path;
  }
  const bool known_section = std::ranges::find(sections, section) != sections.end();
  if (known_section && !dotted) return fmt::format("a section; name a key of it, such as {}.{}", section, all.front());
  std::optional<std::string> best;
  if (dotted && known_section) {
    if (const auto near = nearest(name, all)) best = section + "." + *near;
    if (!best && !elsewhere.empty()) best = elsewhere;
  } else if (const auto near = nearest(section, sections)) {
    best = dotted && find_key(*near + "." + name) != nullptr ? *near + "." + name : *near;
  } else if (!elsewhere.empty()) {
    best = elsewhere;
  }
  if (!best) {  // a right name that lacks a section, misspelt or in the wrong place: compare the names alone
    std::vector<std::string> names;
    for (const Key& key : deck_keys()) names.push_back(key.name());
    if (const auto near = nearest(name, names))
      for (const Key& key : deck_keys())
        if (key.name() == *near) best = best.value_or(key.path);
  }
  return fmt::format("unknown {}{}", dotted ? "key" : "section",
                     best ? fmt::format("; did you mean '{}'?", *best) : "");
}

void Loader::set(const Key& key, const YamlNode& value, const DeckPlace& place) {
  places_[key.path] = place;
  if (std::string wrong = assign(key, config_, value); !wrong.empty()) errors_.add(place, key.path, std::move(wrong));
}

void Loader::read_section(const YamlEntry& section) {
  const std::vector<std::string> sections = deck_sections();
  if (std::ranges::find(sections, section.key) == sections.end()) {
    const bool dotted_key = find_key(section.key) != nullptr;
    errors_.add(in_file(section.key_mark), section.key,
                dotted_key ? "in a deck the section stands on a line of its own, its keys indented below it"
                           : unknown(section.key));
    return;
  }
  if (section.value.kind != YamlNode::Kind::map) {
    const bool nothing = section.value.kind == YamlNode::Kind::null;
    errors_.add(in_file(nothing ? section.key_mark : section.value.mark), section.key,
                nothing ? "this section is empty; give it keys or leave it out"
                        : "expected keys with values, indented below the section");
    return;
  }
  for (const YamlEntry& entry : section.value.entries) {
    const std::string path = section.key + "." + entry.key;
    const Key* key = find_key(path);
    if (key == nullptr)
      errors_.add(in_file(entry.key_mark), path, unknown(path));
    else
      set(*key, entry.value, in_file(entry.value.kind == YamlNode::Kind::null ? entry.key_mark : entry.value.mark));
  }
}

void Loader::read_file(std::string_view text) {
  YamlDocument document = parse_yaml(text);
  lines_ = std::move(document.lines);
  for (YamlProblem& problem : document.problems) errors_.add(in_file(problem.mark), "", std::move(problem.text));
  if (document.root.kind == YamlNode::Kind::map)
    for (const YamlEntry& section : document.root.entries) read_section(section);
  else if (document.problems.empty())
    errors_.add(in_file(document.root.mark), "", "expected sections (run, model, data, ...) with keys below them");
}

void Loader::read_override(const std::string& argument) {
  const DeckPlace place{"command line: " + argument, {}, {}};
  const std::size_t equals = argument.find('=');
  const std::string path = argument.substr(0, equals);
  const Key* key = find_key(path);
  if (equals == std::string::npos) return errors_.add(place, "", "expected key.path=value");
  if (key == nullptr) return errors_.add(place, path, unknown(path));
  const auto before = places_.find(path);
  if (before != places_.end() && before->second.mark.line == 0)
    return errors_.add(place, path, "given twice on the command line");
  const std::string value = argument.substr(equals + 1);
  const YamlDocument document = parse_yaml(value);
  if (!document.problems.empty()) {
    const YamlProblem& problem = document.problems.front();
    return errors_.add(place, path,
                       value.empty() ? fmt::format("expected {}, got nothing", expectation(*key)) : problem.text);
  }
  if (document.root.kind == YamlNode::Kind::plain && document.root.text != value)
    return errors_.add(
        place, path,
        fmt::format("a value with spaces at its ends or a comment needs quotes, here only '{}' would count",
                    document.root.text));
  set(*key, document.root, place);
}

RunConfig Loader::finish() {
  if (errors_.empty())
    for (Finding& finding : check_together(config_)) {
      const auto place = places_.find(finding.key);
      errors_.add(place == places_.end() ? DeckPlace{name_ + ": default", {}, {}} : place->second, finding.key,
                  std::move(finding.text));
    }
  errors_.throw_if_any(name_);
  if (config_.run.directory.empty()) config_.run.directory = "runs/" + std::filesystem::path(name_).stem().string();
  return config_;
}

[[noreturn]] void refuse(const std::vector<Finding>& findings, const std::string& what) {
  DeckErrorList errors;
  for (const Finding& finding : findings) errors.add({what, {}, {}}, finding.key, finding.text);
  errors.throw_if_any(what);
  throw DeckError(what);
}

std::string read_whole(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw FileError(ExitCode::missing_input, path, "this is a directory; the deck must be a YAML file");
  // Nobody may be writing into a pipe, and of one each rank would get a part.
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    throw FileError(ExitCode::missing_input, path,
                    "this is not a regular file (a pipe or a device?); the deck must be one that every rank can read");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw FileError(ExitCode::missing_input, path, fmt::format("the deck cannot be opened: {}", std::strerror(errno)));
  std::string text(kMaxYamlSize + 1, '\0');  // one byte more than allowed tells that there is too much
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw FileError(ExitCode::input_output, path, "the deck cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

RunConfig load_deck(const std::string& path, const std::vector<std::string>& overrides) {
  return load_deck_text(path, read_whole(path), overrides);
}

RunConfig load_deck_text(const std::string& name, std::string_view text, const std::vector<std::string>& overrides) {
  Loader loader(name);
  loader.read_file(text);
  for (const std::string& argument : overrides) loader.read_override(argument);
  return loader.finish();
}

RunConfig load_embedded_deck(const std::vector<std::string>& overrides) {
  return load_deck_text("tiny", embedded_deck(), overrides);
}

void validate(const RunConfig& config) {
  std::vector<Finding> findings = check_members(config);
  if (findings.empty()) findings = check_together(config);
  if (!findings.empty()) refuse(findings, "as set");
}

RunConfig validate_for_ranks(RunConfig config, int ranks) {
  if (const auto findings = check_ranks(config, ranks); !findings.empty())
    throw DeckError(fmt::format("the deck does not fit {} {}; nothing was started\n{}: {}", ranks,
                                ranks == 1 ? "rank" : "ranks", findings.front().key, findings.front().text));
  config.parallel.stages = ranks / config.parallel.replicas;
  return config;
}

}  // namespace pipefill
