#include "engine/run_directory.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "base/error.hpp"
#include "base/host.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

constexpr std::array kStateNames{"starting", "running", "finished", "stopped", "failed"};

RunPhase phase_from(const std::string& name) {
  for (std::size_t i = 0; i < kStateNames.size(); ++i)
    if (name == kStateNames[i]) return static_cast<RunPhase>(i);
  throw std::invalid_argument("unknown state " + name);
}

/// Whether a process of this number exists and is more than a zombie that nobody has waited for yet.
bool is_alive(int pid) {
  if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH)) return false;
  const std::string stat = process_stat(pid);
  return stat.empty() || (stat.front() != 'Z' && stat.front() != 'X');
}

}  // namespace

void create_run_directory(const RunDirectory& run) {
  for (const auto& folder : {run.root, run.trace(), run.checkpoints()}) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!error && access(folder.c_str(), W_OK) != 0) error = std::error_code(errno, std::generic_category());
    if (error)
      throw FileError(ExitCode::cannot_create, folder.string(),
                      fmt::format("cannot create or write this run directory ({}); choose another with run.directory",
                                  error.message()));
  }
}

const char* name_of(RunPhase phase) { return kStateNames[static_cast<std::size_t>(phase)]; }

nlohmann::json to_json(const RunStatus& status) {
  nlohmann::json json{{"schema", 1},
                      {"state", name_of(status.phase)},
                      {"step", status.step},
                      {"steps", status.steps},
                      {"attempt", status.attempt},
                      {"reason", status.reason},
                      {"host", status.host},
                      {"pid", status.pid},
                      {"eta_s", nullptr},
                      {"last_checkpoint", nullptr},
                      {"exit_code", nullptr}};
  if (status.eta) json["eta_s"] = to_seconds(*status.eta);
  if (status.last_checkpoint) json["last_checkpoint"] = *status.last_checkpoint;
  if (status.exit_code) json["exit_code"] = *status.exit_code;
  return json;
}

RunStatus read_status(const RunDirectory& run) {
  std::ifstream file(run.status());
  if (!file) throw FileError(ExitCode::missing_input, run.status().string(), "no such file; is this a run directory?");
  try {
    const nlohmann::json json = nlohmann::json::parse(file);
    RunStatus status;
    status.phase = phase_from(json.at("state").get<std::string>());
    status.step = json.at("step");
    status.steps = json.at("steps");
    status.attempt = json.at("attempt");
    status.reason = json.at("reason");
    status.host = json.at("host");
    status.pid = json.at("pid");
    if (!json.at("eta_s").is_null()) status.eta = from_seconds(json["eta_s"]);
    if (!json.at("last_checkpoint").is_null()) status.last_checkpoint = json["last_checkpoint"];
    if (!json.at("exit_code").is_null()) status.exit_code = json["exit_code"];
    return status;
  } catch (const std::exception& error) {
    throw FileError(ExitCode::damaged_data, run.status().string(), fmt::format("damaged: {}", error.what()));
  }
}

void write_status(const RunDirectory& run, const RunStatus& status) {
  replace_file(run.status(), to_json(status).dump(2) + "\n", Durability::cached);
}

bool is_stale(const RunStatus& status) {
  if (status.phase != RunPhase::starting && status.phase != RunPhase::running) return false;
  return status.host == host_name() && !is_alive(status.pid);
}

}  // namespace pipefill
