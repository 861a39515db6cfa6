// Parses the command line with the messages that CLI11 does not give: nearest command, nearest option.
#pragma once

#include <CLI/CLI.hpp>

namespace pipefill {

enum class Parsed { go_on, printed };  ///< printed: --help or --version was asked for and answered

/// Runs the callbacks of the commands named. Throws UsageError (64) on everything that does not fit.
Parsed parse_command_line(CLI::App& app, int argc, const char* const* argv);

}  // namespace pipefill
