// Where a run starts: afresh, from a checkpoint, or nowhere because it is finished. All ranks decide together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/log.hpp"
#include "checkpoint/load.hpp"
#include "config/run_config.hpp"
#include "config/run_plan.hpp"
#include "engine/run_directory.hpp"

namespace pipefill {

/// --resume auto|never|STEP.
struct ResumeChoice {
  enum class Kind { automatic, never, step } kind = Kind::automatic;
  std::int64_t step = 0;
};
/// UsageError for anything else.
ResumeChoice parse_resume(const std::string& text);

struct StartingPoint {
  int attempt = 1;
  bool finished = false;                      ///< all steps were done before; there is nothing to run
  std::optional<FoundCheckpoint> checkpoint;  ///< none: afresh
};

/// What the run directory says, decided by rank 0 and told to all; collective. FileError 73 for `never` on a used
/// directory, 66 or 65 for a step that is not there or damaged, DeckError when the deck has changed in a way that
/// would make the continuation another run (model, data, seed).
StartingPoint find_start(const RankGroup& ranks, const RunDirectory& run, const RunConfig& config, ResumeChoice choice,
                         const Log& log);

/// What the trainer starts from: fresh, or as the checkpoint left it.
RunState first_state(const RunConfig& config, const RunPlan& plan, const StartingPoint& start);

}  // namespace pipefill
