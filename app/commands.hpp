// The commands of the program: one file app/<command>.cpp per command, one line below, one line in pipefill.cpp.
//
// add_<name>_command adds a CLI11 subcommand to `app` and, in the subcommand's callback, only sets `chosen` to what is
// to be done: main runs it after parsing, inside the one catch, and returns its exit code. A command throws the Errors
// of base/error.hpp, prints its result to stdout, and holds its options in a shared_ptr that the lambdas share. A group
// such as `trace` adds its own subcommands to its subcommand and calls require_subcommand(1) on it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/error.hpp"

namespace pipefill {

using Command = std::function<ExitCode()>;

void add_check_command(CLI::App& app, Command& chosen);
void add_doctor_command(CLI::App& app, Command& chosen);
void add_halt_command(CLI::App& app, Command& chosen);
void add_plan_command(CLI::App& app, Command& chosen);
void add_status_command(CLI::App& app, Command& chosen);
void add_train_command(CLI::App& app, Command& chosen);
void add_checkpoint_command(CLI::App& app, Command& chosen);
void add_trace_command(CLI::App& app, Command& chosen);
void add_fill_command(CLI::App& app, Command& chosen);

}  // namespace pipefill
