// The directory RUN/checkpoints: what the names in it mean, which checkpoint is newest, and what may go.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pipefill {

std::string step_name(std::int64_t step);                      ///< "step-00000100"
std::string temporary_name(std::int64_t step, int attempt);    ///< ".tmp-step-00000100-2"
std::optional<std::int64_t> step_of(const std::string& name);  ///< of "step-00000100"; nothing for other names

struct CheckpointEntry {
  std::string path;
  std::int64_t step = 0;
  std::optional<int> attempt;  ///< nothing: its manifest cannot be read
};

/// All `step-*` in it, newest first: highest attempt, then highest step; those without a readable manifest before all
/// others. Empty when the directory is missing.
std::vector<CheckpointEntry> list_checkpoints(const std::string& directory);

/// Names of `.tmp-*` and `.trash-*`: what a killed save or prune left behind.
std::vector<std::string> list_leftovers(const std::string& directory);
/// Removes them (the run must be locked) and returns their names.
std::vector<std::string> prune_leftovers(const std::string& directory);

/// Removes what is older than the newest max(2, keep) whole checkpoints: each is renamed to `.trash-*`, then unlinked.
/// Those not in `known_good` are verified by their hashes first, and entered there when whole. Returns removed names.
std::vector<std::string> prune_checkpoints(const std::string& directory, int keep, std::set<std::string>& known_good);

}  // namespace pipefill
