// Saving a checkpoint, all ranks together: temporary directory, one shard per rank, manifest, rename. The rename is the
// commit: until then nothing is visible, and whatever fails, earlier checkpoints are untouched.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/rank_group.hpp"
#include "checkpoint/tensor_slice.hpp"

namespace pipefill {

class Hdf5Thread;

struct SaveRequest {
  std::string directory;                             ///< RUN/checkpoints; made where absent
  RunState state;                                    ///< the same on all ranks
  std::span<const TensorSlice> slices;               ///< this rank's; may be empty; must not change until save returns
  int keep = 2;                                      ///< checkpoints to keep, at least two verified ones stay
  std::function<int(const char* call)> inject = {};  ///< tests only: fails the shard's system calls, see WriteReport
};

/// `error`, `path` and `bytes` are the same on all ranks.
struct SaveReport {
  std::string error;                ///< empty: saved. Otherwise what failed, on which rank; count it and go on
  std::string path;                 ///< RUN/checkpoints/step-00000100
  Bytes bytes;                      ///< of all ranks' shards
  Nanoseconds total{};              ///< start to end on this rank: predicts the next one
  Nanoseconds write{};              ///< this rank's shard, fsync and hash included
  std::vector<std::string> pruned;  ///< rank 0: names of the checkpoints removed
  std::string warning;              ///< rank 0: saved, but pruning failed, and why
  bool saved() const { return error.empty(); }
};

/// Blocks until the checkpoint is on disk or has failed. A full disk, a quota, an I/O error, an unwritable directory
/// are reported, not thrown. Throws TransportError when a peer is lost, and Error 70 when the slices of all ranks do
/// not cover every tensor exactly once. `known_good` holds names of checkpoints that this process wrote or verified, so
/// that pruning need not read them again (used on rank 0 only); updated.
SaveReport save_checkpoint(const RankGroup& ranks, Hdf5Thread& hdf5, const SaveRequest& request,
                           std::set<std::string>& known_good);

}  // namespace pipefill
