#include "command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace pipefill {
namespace {

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const auto best = nearest(word, candidates);
  return best ? fmt::format("; did you mean '{}'?", *best) : std::string{};
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

std::vector<std::string> command_names(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* child : app.get_subcommands([](CLI::App*) { return true; })) names.push_back(child->get_name());
  return names;
}

/// The innermost command that the words name; UsageError where a command is due and the word is none.
CLI::App* find_command(CLI::App& app, int argc, const char* const* argv) {
  CLI::App* command = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::vector<std::string> names = command_names(*command);
    if (word.starts_with("-") || names.empty()) return command;
    const auto named = command->get_subcommands([&word](CLI::App* child) { return child->check_name(word); });
    if (named.empty())
      throw UsageError(fmt::format("'{} {}' is not a command{} Commands: {}.", full_name(*command), word,
                                   nearest(word, names) ? did_you_mean(word, names) : std::string("."),
                                   fmt::join(names, ", ")));
    command = named.front();
  }
  const std::vector<std::string> names = command_names(*command);
  if (!names.empty())
    throw UsageError(
        fmt::format("'{0}' needs a command: {1}. Try '{0} --help'.", full_name(*command), fmt::join(names, ", ")));
  return command;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string first_unknown_option(const CLI::App& command, int argc, const char* const* argv) {
  const std::vector<std::string> known = option_names(command);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with("--") && name.size() > 2 && std::find(known.begin(), known.end(), name) == known.end())
      return name;
  }
  return {};
}

}  // namespace

Parsed parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* command = find_command(app, argc, argv);
  for (int i = 1; i < argc; ++i)  // otherwise no deck at all, or the root directory
    if (argv[i][0] == '\0')
      throw UsageError(
          fmt::format("'{}': word {} of the command line is empty; an unset variable?", full_name(*command), i));
  try {
    app.parse(argc, argv);
    return Parsed::go_on;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return Parsed::printed;
    }
    const std::string help = fmt::format("Try '{} --help'.", full_name(*command));
    if (const std::string name = first_unknown_option(*command, argc, argv); !name.empty())
      throw UsageError(
          fmt::format("'{}' has no option {}{} {}", full_name(*command), name,
                      nearest(name, option_names(*command)) ? did_you_mean(name, option_names(*command)) : ".", help));
    throw UsageError(fmt::format("{}: {}. {}", full_name(*command), error.what(), help));
  }
}

}  // namespace pipefill
