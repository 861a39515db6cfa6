// pipefill halt RUN: asks a running job, on whatever host, to save and stop after its next step.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "commands.hpp"
#include "engine/run_directory.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

ExitCode halt(const std::string& directory) {
  const RunDirectory run{directory};
  const RunStatus status = read_status(run);
  if (status.phase == RunPhase::finished || status.phase == RunPhase::stopped || status.phase == RunPhase::failed ||
      is_stale(status)) {
    fmt::print("{} is not running (it is {}); nothing to halt\n", directory,
               is_stale(status) ? "killed" : name_of(status.phase));
    return ExitCode::finished;
  }
  replace_file(run.halt(), "", Durability::cached);
  fmt::print("{}: asked to save and stop after the next step (exit code 75); `pipefill status {}` tells when it has\n",
             directory, directory);
  return ExitCode::finished;
}

}  // namespace

void add_halt_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("halt", "ask a running job to save and stop after its next step");
  auto run = std::make_shared<std::string>();
  command->add_option("RUN", *run, "run directory")->required();
  command->callback([run, &chosen] { chosen = [run] { return halt(*run); }; });
}

}  // namespace pipefill
