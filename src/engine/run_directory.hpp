// The run directory: where each file of a run lies, and its status.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "base/units.hpp"

namespace pipefill {

/// Paths inside a run directory (DESIGN section 4).
struct RunDirectory {
  std::filesystem::path root;

  std::filesystem::path deck() const { return root / "deck.yaml"; }
  std::filesystem::path status() const { return root / "status.json"; }
  std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
  std::filesystem::path log() const { return root / "log.txt"; }
  std::filesystem::path trace() const { return root / "trace"; }
  std::filesystem::path checkpoints() const { return root / "checkpoints"; }
  std::filesystem::path halt() const { return root / "halt"; }  ///< there: stop after the next step
};

/// Makes the directory and its folders. Throws FileError (73) when that cannot be done.
void create_run_directory(const RunDirectory& run);

enum class RunPhase { starting, running, finished, stopped, failed };

/// status.json: the truth about a run, whatever mpirun's exit code says.
struct RunStatus {
  RunPhase phase = RunPhase::starting;
  std::int64_t step = 0;
  std::int64_t steps = 0;
  int attempt = 1;
  std::optional<Nanoseconds> eta;
  std::optional<std::int64_t> last_checkpoint;  ///< step of the last good one
  std::string reason;                           ///< why it stopped or failed; empty while running
  std::optional<int> exit_code;
  std::string host;
  int pid = 0;
};

nlohmann::json to_json(const RunStatus& status);
/// Throws FileError: 66 when there is none, 65 when it cannot be read as one.
RunStatus read_status(const RunDirectory& run);
/// Replaces status.json atomically. Throws FileError.
void write_status(const RunDirectory& run, const RunStatus& status);

const char* name_of(RunPhase phase);

/// A `running` status whose process is gone: the run was killed before it could say so. Only decidable on its host.
bool is_stale(const RunStatus& status);

}  // namespace pipefill
