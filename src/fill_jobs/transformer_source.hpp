// Where the transformer of a fill job comes from: a checkpoint of this program in any layout, or a fresh
// initialisation of a given shape.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fill_jobs/job_parameters.hpp"
#include "fill_jobs/parameter_layout.hpp"
#include "model/model_shape.hpp"

namespace pipefill {

/// A checkpoint is chosen once: the choice is kept in the job's directory (model.json), so that a job that was stopped
/// goes on with the same model though its run has newer checkpoints by then. The parameters themselves are in the job's
/// state from the first `restore` on, so that the checkpoint may be pruned meanwhile. The parts of a divided job choose
/// when they are made, and the first one for all.
class TransformerSource {
 public:
  /// Asks for `checkpoint` (a run, its checkpoints/ or one step's directory), or for `layers channels heads context
  /// vocab tied` (of the last two, `vocab` defaults to `data_vocab`). Shapes are bounded: DeckError otherwise.
  TransformerSource(JobParameters& parameters, const pipefill_fill_setup& setup, std::uint64_t seed, int data_vocab);

  const ModelShape& shape() const { return shape_; }
  /// Keeps the choice of the checkpoint, then fills the flat array. Files are verified by their hashes first.
  void fill(const ParameterLayout& layout, std::span<float> values, int threads) const;
  std::string describe() const;  ///< "checkpoint RUN/checkpoints/step-00000100", "initialised with seed 1"

 private:
  void find_checkpoint_of(const std::string& path);
  bool read_choice();
  enum class Choice { own, of_the_first };
  /// of_the_first: false, and nothing is written, where another part has chosen already.
  bool keep_choice(Choice choice_of) const;

  ModelShape shape_;
  std::uint64_t seed_;
  std::string checkpoint_;  ///< directory of the step; empty: fresh
  std::string choice_file_;
};

}  // namespace pipefill
