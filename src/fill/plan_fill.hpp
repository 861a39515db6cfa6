// Which chunks of which jobs run in which bubble of a stage's cycle (one step): PipeFill's algorithm for one job, and
// ours, in which several jobs share the cycle so that what one leaves over serves another.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fill/fill_job.hpp"
#include "schedule/instruction.hpp"

namespace pipefill {

/// One bubble as it is sold.
struct BubbleBudget {
  int position = -1;  ///< of the Bubble in the stage's program
  BubbleClass why = BubbleClass::steady;
  Nanoseconds length{};
  Bytes memory{};  ///< free beside the main job
};

/// The bubbles of one stage and one step, in order.
using BubbleCycle = std::vector<BubbleBudget>;

struct PlanSettings {
  Nanoseconds guard{};       ///< left unused at the end of each bubble
  double fill_fraction = 1;  ///< of each bubble's length that is used at most (PipeFill: about 0.68)
};

/// What of a bubble may be planned: length x fill fraction - guard, at least zero.
Nanoseconds usable(const BubbleBudget& bubble, const PlanSettings& settings);

/// Consecutive chunks of one job.
struct PlannedChunks {
  std::int64_t job = 0;    ///< FillJobInfo::id
  int configuration = 0;   ///< index
  std::int64_t first = 0;  ///< chunk
  std::int64_t count = 0;  ///< >= 1
  Nanoseconds time{};      ///< of all of them
  double samples = 0;      ///< of all of them
  Bytes memory{};          ///< of the largest chunk
};

struct PlannedBubble {
  std::vector<PlannedChunks> runs;  ///< one after the other
  Nanoseconds used() const;
};

/// Chunks for the bubbles of one stage's cycle. In every bubble: used() <= usable(), and the resident memory of all
/// jobs of the plan + the largest chunk's <= the bubble's memory. A job's chunks are in order over the cycle.
struct FillPlan {
  std::vector<PlannedBubble> bubbles;  ///< parallel to the cycle
  /// Useful work: time of the chunks, each job's in units of its fastest configuration, so that being slow earns
  /// nothing.
  Nanoseconds work{};
  Nanoseconds used() const;
  double samples() const;
};

/// Whether the gaps between forwards and backwards of 1F1B are used.
enum class InnerGaps { use, leave };

/// How fast one job alone would come along in a cycle.
struct CycleRate {
  int configuration = 0;
  Nanoseconds used{};  ///< chunk time in one cycle; zero when no chunk fits
  double cycles = 0;   ///< until the job is finished, at this rate; infinite when no chunk fits
};

/// The configuration in which the largest share of the job is done in one cycle (the pinned one, when there is one).
/// Within a configuration greedy is best: a chain that takes all it can in each bubble is never behind. Does not
/// allocate; time grows with the bubbles, not with the chunks.
CycleRate best_rate(const FillJobInfo& job, const BubbleCycle& cycle, const PlanSettings& settings,
                    InnerGaps gaps = InnerGaps::use);

/// PipeFill (arXiv 2410.07192), as PAPER.md tells it: for every configuration, keep adding chunks to the bubble while
/// they fit length x fill fraction and memory, else go to the next bubble, until the cycle is over; the configuration
/// with the most samples per cycle wins. Inner gaps (BubbleClass::steady) are left unused.
FillPlan plan_pipefill(const FillJobInfo& job, const BubbleCycle& cycle, const PlanSettings& settings);

/// Most jobs that share a stage; each has its process state and its memory.
inline constexpr std::size_t kMostSharing = 4;

/// Several jobs share the cycle. Each runs in the configuration of best_rate. Where all that remains of a cycle after
/// serving the jobs in the given order is under 1 % of it, that is the plan; otherwise a beam search over the bubbles,
/// which keeps the 64 best ways to have come so far. Jobs whose states do not fit together are tried in subsets.
/// Takes the first kMostSharing jobs.
FillPlan plan_shared(std::span<const FillJobInfo* const> jobs, const BubbleCycle& cycle, const PlanSettings& settings);

/// How many chunks from `from` on run in `room` and `memory` one after the other; the planners' innermost step.
struct ChunkFit {
  std::int64_t count = 0;
  Nanoseconds time{};
  double samples = 0;
  Bytes memory{};  ///< of the largest
};
ChunkFit fit_chunks(const FillConfiguration& configuration, std::int64_t from, Nanoseconds room, Bytes memory,
                    std::int64_t most = INT64_MAX);

}  // namespace pipefill
