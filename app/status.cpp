// pipefill status RUN: where a run stands, from its status.json.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/text.hpp"
#include "commands.hpp"
#include "engine/run_directory.hpp"

namespace pipefill {
namespace {

struct StatusOptions {
  std::string run;
  bool json = false;
};

ExitCode show_status(const StatusOptions& options) {
  const RunStatus status = read_status({options.run});
  nlohmann::json json = to_json(status);
  if (is_stale(status)) json["state"] = "killed";
  if (options.json) {
    fmt::print("{}\n", json.dump(2));
    return ExitCode::finished;
  }
  fmt::print("{}: {}, step {} of {}, attempt {}\n", options.run, json["state"].get<std::string>(), status.step,
             status.steps, status.attempt);
  if (status.eta && !is_stale(status)) fmt::print("  ready in about {}\n", format_clock(*status.eta));
  if (status.last_checkpoint) fmt::print("  last good checkpoint: step {}\n", *status.last_checkpoint);
  if (!status.reason.empty()) fmt::print("  reason: {}\n", status.reason);
  if (status.exit_code) fmt::print("  exit code: {}\n", *status.exit_code);
  if (is_stale(status))
    fmt::print("  its process is gone without a word (killed?); the same train command resumes it\n");
  return ExitCode::finished;
}

}  // namespace

void add_status_command(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("status", "where a run stands");
  auto options = std::make_shared<StatusOptions>();
  command->add_option("RUN", options->run, "run directory")->required();
  command->add_flag("--json", options->json, "print status.json, with the state `killed` where its process is gone");
  command->callback([options, &chosen] { chosen = [options] { return show_status(*options); }; });
}

}  // namespace pipefill
