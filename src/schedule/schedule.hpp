// A schedule: what every stage runs in one step, in order. Plain data, no durations (those are a CostModel's).
#pragma once

#include <string>
#include <vector>

#include "schedule/instruction.hpp"

namespace pipefill {

using Program = std::vector<Instruction>;

/// The trace and the liveness board hold a microbatch in 16 bits.
inline constexpr int kMostMicrobatches = 32768;
/// A third of the bits of Open MPI's tags are there for the chunk.
inline constexpr int kMostStages = 1024;
/// Stages times microbatches: beyond it, to check and price a schedule would take minutes and gigabytes.
inline constexpr int kMostStageMicrobatches = 1 << 20;

struct Schedule {
  std::string name;                     ///< "gpipe", "1f1b", ...
  int microbatches = 1;                 ///< M
  std::vector<StageId> stage_of_chunk;  ///< model chunk -> stage that holds it; size P*v
  std::vector<Program> programs;        ///< per stage; size P

  int stages() const { return static_cast<int>(programs.size()); }
  int chunks() const { return static_cast<int>(stage_of_chunk.size()); }
  bool operator==(const Schedule&) const = default;
};

}  // namespace pipefill
