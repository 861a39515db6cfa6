// Fill work in one rank's bubbles: the hand-over. In front of a wait the rank grants its fill workers the bubble and
// sleeps until one of them has something to tell; on the arrival of the input the worker stops. Around it: the bubble
// model, which every bubble feeds, filled or not, and the audit, which lets some steps run unfilled and moves the guard
// so that the measured slowdown keeps its limit.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/wait.hpp"
#include "engine/fill_crew.hpp"
#include "fill/bubble_model.hpp"
#include "fill/guard.hpp"
#include "fill/slowdown.hpp"
#include "fill/strategy.hpp"
#include "trace/trace.hpp"

namespace pipefill {

struct BubbleFillSettings {
  StrategySettings strategy;
  GuardSettings guard;
  AuditSettings audit;                 ///< the steps before audit.first_step measure the bubbles
  WaitMethod wait = WaitMethod::spin;  ///< of the rank in bubbles that are not filled
};

/// By what a rank is told that it was sent something, so that it can sleep over chunk ends that nothing came before.
/// Only where all ranks of the run can ring it: others may need its progress without its knowing.
struct RankBell {
  const Doorbells* doorbells = nullptr;  ///< null: it looks at the end of every chunk
  RankId mine{};
};

/// What fill work brought so far on this rank, for the step line.
struct FillFigures {
  Nanoseconds bubbles{};  ///< in filled steps
  Nanoseconds chunks{};   ///< chunk time inside them
  SlowdownEstimate slowdown;
  Nanoseconds guard{};
};

class BubbleFill final : private Pause {
 public:
  /// `crew`, `trace` outlive it. `program`: the stage's.
  BubbleFill(const BubbleFillSettings& settings, const Program& program, FillCrew& crew, Trace& trace,
             RankBell bell = {});

  /// `at_rest` says that nothing this rank sent is still under way: then nobody waits for it to move traffic along.
  void set_at_rest(std::function<bool()> at_rest) { at_rest_ = std::move(at_rest); }

  /// The step that follows is filled, if the crew has jobs, or, for comparison, not.
  void begin_step(std::int64_t step);
  /// The rank is about to wait at the Bubble at `position`; its previous instruction ended at `begin`. Returns how to
  /// wait. Call leave() as soon as the wait is over. `sender`: whose message ends it; -1: not that of one rank.
  Pause& enter(int position, Nanoseconds begin, Bytes free_memory, RankId sender);
  /// The input is there: the worker stops. At most the grace of waiting.
  void leave();
  /// The bubble of the last enter() (or one that was no wait at all) ended at `arrival`. Returns what was sold of it.
  Nanoseconds record(int position, Nanoseconds begin, Nanoseconds arrival, Bytes free_memory);
  /// The step took `time`. Steps next to a checkpoint or validation are compared like the others: both lie between
  /// steps. Returns what the guard did of it.
  GuardMove end_step(Nanoseconds time);
  /// Between steps: what is still granted (an ungated strategy) ends.
  void pause_work();

  /// Lets every job of the crew run with the main job absent for `time`, one after the other, and records what its
  /// chunks cost alone.
  void run_alone(Nanoseconds time);

  BlockSchedule::Step audit(std::int64_t step) const { return blocks_.at(step); }
  bool step_is_filled() const { return filled_; }
  FillFigures figures() const;
  /// What made the guard rise last.
  const GuardController::Cause& cause() const { return guard_.cause(); }
  /// The stage's cycle as it is sold now, for the scheduler.
  BubbleCycle cycle() const { return decider_.cycle(); }
  PlanSettings plan_settings() const { return decider_.plan_settings(); }
  const StrategyTraits& traits() const { return decider_.traits(); }
  FillCrew& crew() { return crew_; }

 private:
  struct Bubble {
    int position = -1;
    Nanoseconds begin{}, arrival{};
    bool filled = false;  ///< of a filled step
  };

  // Pause, while a gated bubble is filled.
  void begin() override;
  void pause() override;
  void ask();
  std::optional<std::uint32_t> may_sleep_over() const;
  void grant(const Grant& grant);
  void record_chunks();
  void record_chunk(CrewMember& member, const ChunkRecord& chunk);
  void run_alone(CrewMember& member, Nanoseconds time);

  BubbleModel model_;
  GrantDecider decider_;
  GuardController guard_;
  BlockSchedule blocks_;
  SlowdownMeter meter_;
  std::int64_t first_filled_;
  FillCrew& crew_;
  Trace& trace_;
  RankBell bell_;
  std::function<bool()> at_rest_;
  std::unique_ptr<Pause> plain_;   ///< how an unfilled bubble waits, and what a parked worker leaves of a filled one
  std::unique_ptr<Pause> shared_;  ///< how the rank waits beside a worker that nothing gates

  std::int64_t step_ = 0;
  bool filled_ = false;
  bool profiled_ = false;

  // The bubble being filled.
  int position_ = -1;
  Nanoseconds bubble_begin_{};
  Bytes free_memory_{};
  std::optional<Grant> pending_;  ///< not to be used before its time
  Nanoseconds next_question_{};
  Nanoseconds pending_question_{};  ///< the next one after the pending grant's time
  bool open_ = false;               ///< a grant is being used
  bool listens_ = false;            ///< the bell tells all that there is to be told of this wait
  Nanoseconds sold_{};

  std::vector<Bubble> bubbles_;  ///< of this step and, in front of them, the last one
  std::size_t bubbles_of_last_step_ = 0;
  std::vector<ChunkRecord> chunks_;  ///< drained; reused
  Nanoseconds bubble_time_{}, chunk_time_{};
};

}  // namespace pipefill
