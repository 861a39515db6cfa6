// pipefill checkpoint list|show|verify RUN [STEP]: what checkpoints a run has, what is in one, whether it is whole.
// Looks only; never changes a run directory, and never parses HDF5.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/text.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/verify.hpp"
#include "commands.hpp"

namespace pipefill {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string run;
  std::optional<std::int64_t> step;
  bool json = false;
};

void print(const Json& json) { fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace)); }

std::string name_of(const CheckpointEntry& entry) { return std::filesystem::path(entry.path).filename().string(); }

/// RUN/checkpoints, or RUN itself when it is such a directory. Missing: FileError 66.
std::string checkpoints_of(const std::string& run) {
  for (const std::string& directory : {run + "/checkpoints", run}) {
    std::error_code error;
    if (std::filesystem::is_directory(directory, error) && (directory != run || !list_checkpoints(run).empty())) {
      return directory;
    }
  }
  throw FileError(ExitCode::missing_input, run,
                  "no checkpoints here: give the run directory, which has a directory `checkpoints`");
}

/// The step asked for, or the newest. Absent: FileError 66.
CheckpointEntry pick(const Arguments& arguments) {
  const std::string directory = checkpoints_of(arguments.run);
  for (const CheckpointEntry& entry : list_checkpoints(directory)) {
    if (!arguments.step || entry.step == *arguments.step) return entry;
  }
  throw FileError(ExitCode::missing_input, directory,
                  arguments.step ? fmt::format("no checkpoint of step {}", *arguments.step) : "no checkpoint yet");
}

ExitCode list(const Arguments& arguments) {
  const std::string directory = checkpoints_of(arguments.run);
  Json rows = Json::array();
  const std::vector<CheckpointEntry> entries = list_checkpoints(directory);
  if (!arguments.json && entries.empty()) fmt::print("{}: no checkpoint yet\n", directory);
  if (!arguments.json && !entries.empty())
    fmt::print("{:<16}{:>8}{:>14}{:>8}  {}\n", "checkpoint", "attempt", "size", "files", "state");
  for (const CheckpointEntry& entry : entries) {
    std::vector<Damage> damage;
    const std::optional<Manifest> manifest = check_manifest(entry.path, damage);
    Json row = {{"name", name_of(entry)}, {"step", entry.step}};
    if (manifest) {
      row.update(
          {{"attempt", manifest->state.attempt}, {"bytes", manifest->bytes()}, {"files", manifest->files.size()}});
    } else {
      row["damage"] = damage.front().text;
    }
    if (!arguments.json && manifest) {
      fmt::print("{:<16}{:>8}{:>14}{:>8}  manifest ok\n", name_of(entry), manifest->state.attempt,
                 format_bytes({manifest->bytes()}), manifest->files.size());
    } else if (!arguments.json) {
      fmt::print("{:<16}{:>8}{:>14}{:>8}  {}\n", name_of(entry), "-", "-", "-", damage.front().text);
    }
    rows.push_back(std::move(row));
  }
  const std::vector<std::string> leftovers = list_leftovers(directory);
  if (arguments.json) {
    print({{"directory", directory}, {"checkpoints", rows}, {"leftovers", leftovers}});
  } else {
    for (const std::string& name : leftovers)
      fmt::print("{}: left by a killed save; the next start removes it\n", name);
  }
  return ExitCode::finished;
}

Json json_of(const Manifest& manifest, const std::string& path) {
  const RunState& state = manifest.state;
  Json tensors = Json::array();
  for (const FileRecord& file : manifest.files) {
    for (const SliceRecord& slice : file.slices) {
      tensors.push_back({{"group", group_name(slice.group)},
                         {"tensor", slice.name},
                         {"shape", slice.shape},
                         {"rows", {slice.row_begin, slice.row_end}},
                         {"file", file.name},
                         {"xxh3_128", slice.hash}});
    }
  }
  const auto loss = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"path", path},
          {"step", state.step},
          {"attempt", state.attempt},
          {"stages", state.stages},
          {"replicas", state.replicas},
          {"schedule", state.schedule},
          {"layers", state.layers},
          {"seed", state.seed},
          {"next_sample", state.next_sample},
          {"training_loss", loss(state.training_loss)},
          {"validation_loss", loss(state.validation_loss)},
          {"bytes", manifest.bytes()},
          {"deck", state.deck},
          {"tensors", tensors}};
}

void print_text(const Manifest& manifest, const std::string& path) {
  const RunState& state = manifest.state;
  const auto loss = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "n/a"; };
  fmt::print("{}\n", path);
  fmt::print("  step {}, attempt {}, next sample {}, seed {}\n", state.step, state.attempt, state.next_sample,
             state.seed);
  fmt::print("  saved by {} x {}, {}, layers {}; loads into any other\n", counted(state.stages, "stage"),
             counted(state.replicas, "replica"), state.schedule, fmt::join(state.layers, " "));
  fmt::print("  loss {}, validation loss {}\n", loss(state.training_loss), loss(state.validation_loss));
  fmt::print("  {} in {} files\n", format_bytes({manifest.bytes()}), manifest.files.size());
  for (const FileRecord& file : manifest.files) {
    fmt::print("  {:<16}{:>12}  {}\n", file.name, format_bytes({file.digest.bytes}), file.digest.hash);
    for (const SliceRecord& slice : file.slices) fmt::print("    {}\n", slice.describe());
  }
}

ExitCode show(const Arguments& arguments) {
  const CheckpointEntry entry = pick(arguments);
  std::vector<Damage> damage;
  const std::optional<Manifest> manifest = check_manifest(entry.path, damage);
  if (!manifest) throw Error(ExitCode::damaged_data, damage.front().text);
  if (arguments.json) {
    print(json_of(*manifest, entry.path));
  } else {
    print_text(*manifest, entry.path);
  }
  return ExitCode::finished;
}

/// All checkpoints, or the one asked for.
ExitCode verify(const Arguments& arguments) {
  std::vector<CheckpointEntry> entries;
  if (arguments.step) {
    entries.push_back(pick(arguments));
  } else {
    entries = list_checkpoints(checkpoints_of(arguments.run));
    if (entries.empty()) entries.push_back(pick(arguments));  // says that there is none
  }
  Json rows = Json::array();
  bool whole = true;
  for (const CheckpointEntry& entry : entries) {
    const std::vector<Damage> damage = verify_checkpoint(entry.path);
    whole = whole && damage.empty();
    Json findings = Json::array();
    for (const Damage& d : damage) {
      findings.push_back(
          {{"file", d.file}, {"tensor", d.tensor}, {"expected", d.expected}, {"found", d.found}, {"text", d.text}});
    }
    rows.push_back({{"name", name_of(entry)}, {"step", entry.step}, {"ok", damage.empty()}, {"damage", findings}});
    if (arguments.json) continue;
    fmt::print("{}: {}\n", name_of(entry), damage.empty() ? "ok" : "DAMAGED");
    for (const Damage& d : damage) fmt::print("  {}\n", d.text);
  }
  if (arguments.json) print({{"ok", whole}, {"checkpoints", rows}});
  return whole ? ExitCode::finished : ExitCode::damaged_data;
}

void add(CLI::App& group, Command& chosen, const std::string& name, const std::string& help,
         ExitCode (*run)(const Arguments&)) {
  CLI::App* command = group.add_subcommand(name, help);
  auto arguments = std::make_shared<Arguments>();
  command->add_option("RUN", arguments->run, "the run directory")->required();
  if (name != "list")
    command->add_option("STEP", arguments->step,
                        fmt::format("a step; without it {}", name == "show" ? "the newest" : "all"));
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([&chosen, arguments, run] { chosen = [arguments, run] { return run(*arguments); }; });
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Command& chosen) {
  CLI::App* group = app.add_subcommand("checkpoint", "list, show or verify the checkpoints of a run");
  group->require_subcommand(1);
  add(*group, chosen, "list", "the checkpoints of a run, newest first", list);
  add(*group, chosen, "show", "what is in a checkpoint: step, layout, losses, files, tensors", show);
  add(*group, chosen, "verify", "compare all bytes with their hashes; 65 when something is damaged", verify);
}

}  // namespace pipefill
