// Finding the newest checkpoint that is whole, and taking rows out of it, all ranks together. Every file is hashed
// before it is used; rows are then read straight from where the manifest says they lie, so that no HDF5 parser ever
// meets a file from outside.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/rank_group.hpp"
#include "checkpoint/verify.hpp"

namespace pipefill {

struct FoundCheckpoint {
  std::string path;  ///< RUN/checkpoints/step-00000100
  Manifest manifest;
};

/// The same on all ranks.
struct CheckpointSearch {
  std::optional<FoundCheckpoint> found;    ///< none: nothing there, or all damaged
  std::vector<DamagedCheckpoint> damaged;  ///< newer ones that were passed over, with what is wrong: tell the user
};

/// Newest first (highest attempt, then highest step); each rank hashes its share of the files. A missing directory is
/// an empty search. With `step`: only that one; absent is FileError 66, damaged FileError 65.
CheckpointSearch find_checkpoint(const RankGroup& ranks, const std::string& directory,
                                 std::optional<std::int64_t> step = {});

/// Fills the destinations from whatever files hold their rows. On all ranks or none: a tensor that the checkpoint lacks
/// or has in another shape is a DeckError (both shapes named), a failing read FileError 74, a file that has become
/// shorter 65.
void load_tensors(const RankGroup& ranks, const FoundCheckpoint& checkpoint,
                  std::span<const TensorDestination> destinations);

}  // namespace pipefill
