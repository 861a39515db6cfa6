// Between a stage and its checkpoints: which rows a rank saves and loads, how long a save will take, and how many
// failed in a row.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/load.hpp"
#include "checkpoint/save.hpp"
#include "engine/rank_services.hpp"
#include "model/adamw.hpp"
#include "model/stage.hpp"

namespace pipefill {

/// Replica 0 gives the parameters, a tied embedding's come from its look-up side; moments come from their owner.
std::vector<TensorSlice> slices_to_save(const Stage& stage, const Adamw& adamw, ReplicaId replica,
                                        OptimizerShard shard);
/// All parameters this stage holds, and the moments it owns.
std::vector<TensorDestination> rows_to_load(const Stage& stage, const Adamw& adamw);

class Checkpointer {
 public:
  Checkpointer(std::filesystem::path directory, int keep, RankGroup ranks, Hdf5Thread& hdf5);

  /// Saves; a failure is logged and counted, not thrown, until the third in a row: SharedError 74 on every rank.
  void save(const RunState& state, std::span<const TensorSlice> slices, const Log& log);

  /// Twice the longest save so far; before the first one, `size` at 200 MB/s and a tenth of a second.
  Nanoseconds predicted_time(Bytes size) const;
  const std::string& trouble() const { return trouble_; }  ///< of the last save; empty: it went well
  std::optional<std::int64_t> last_good_step() const { return last_good_step_; }
  void note_good(const FoundCheckpoint& found);

 private:
  std::filesystem::path directory_;
  int keep_;
  RankGroup ranks_;
  Hdf5Thread& hdf5_;
  std::set<std::string> known_good_;
  std::optional<std::int64_t> last_good_step_;
  Nanoseconds longest_{};
  int failures_in_a_row_ = 0;
  std::string trouble_;
};

}  // namespace pipefill
