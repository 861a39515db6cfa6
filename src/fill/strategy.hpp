// The fill strategies, ours and the baselines it is compared with, as what they are: what a worker may do in a bubble.
// One object serves one stage; `decide` is called at every bubble and never allocates.
#pragma once

#include <cstdint>
#include <vector>

#include "fill/bubble_model.hpp"
#include "fill/plan_fill.hpp"

namespace pipefill {

/// none: no fill work. naive: the job runs all the time beside the main job. idle_priority: the same in the kernel's
/// idle class. freeride: FreeRide (arXiv 2409.06941) as its artifact does it, except that the class minimum leaves out
/// slots too short for its poll, with which it would sell nothing. pipefill: PipeFill (arXiv 2410.07192), fixed plan.
/// adaptive: ours.
enum class FillStrategy { none, naive, idle_priority, freeride, pipefill, adaptive };
const char* strategy_name(FillStrategy strategy);

/// The operating system's scheduling class of the worker.
enum class WorkerClass { normal, idle };

/// closed: nothing may run. until_deadline: chunks that fit before the deadline. open: at any time, in bubbles or not.
enum class Gate { closed, until_deadline, open };

/// When the main job's input arrives: stop at the end of the running chunk, or run on to the deadline.
enum class OnArrival { stop, run_on };

/// How the worker judges and paces chunks. The time a chunk is taken to need is its measured time x `factor`, rounded
/// up to whole `round_to` (zero: not rounded).
struct ChunkRule {
  double factor = 1;
  Nanoseconds round_to{};
  Nanoseconds pause_after{};  ///< asleep after every chunk

  Nanoseconds budget(Nanoseconds measured) const;
  /// Whether a chunk may start at `now`.
  bool fits(Nanoseconds measured, Nanoseconds now, Nanoseconds deadline) const {
    return now + budget(measured) <= deadline;
  }
};

/// What a worker may do in one bubble. Times on the rank's monotonic clock.
struct Grant {
  Gate gate = Gate::closed;
  Nanoseconds not_before{};  ///< FreeRide notices a bubble at its next poll
  Nanoseconds deadline{};
  Nanoseconds ask_again{};  ///< when `decide` may say more, if the input is still not there; the end of time: never
  Bytes memory{};           ///< of a chunk and the states of the jobs together
  OnArrival on_arrival = OnArrival::stop;
  ChunkRule rule{};

  bool open_at(Nanoseconds now) const { return gate == Gate::open || (gate == Gate::until_deadline && now < deadline); }
};

/// What holds of a strategy whatever the bubble.
struct StrategyTraits {
  bool runs_jobs = true;             ///< false: no worker is ever started
  bool guarded = true;               ///< what is sold shrinks while the measured slowdown is over its limit
  bool gated = true;                 ///< false: the worker runs from its start until it is told to end
  bool fixed_after_profile = false;  ///< bubbles are measured in the profiling steps and never again
  WorkerClass worker_class = WorkerClass::idle;
  OnArrival on_arrival = OnArrival::stop;
  InnerGaps gaps = InnerGaps::use;
  ChunkRule rule{};
  Nanoseconds poll{};  ///< bubbles are noticed at whole multiples of this on the clock only; zero: at once
};
StrategyTraits traits_of(FillStrategy strategy);

struct StrategySettings {
  FillStrategy strategy = FillStrategy::adaptive;
  double fill_fraction = 0.68;  ///< pipefill: of each bubble (PAPER.md: before slowdown passed 2 %)
};

class GrantDecider {
 public:
  /// `model` is the stage's; it must outlive this.
  GrantDecider(StrategySettings settings, const BubbleModel& model);

  /// The profiling steps are over: what freeride (shortest bubble per class, of the slots that it can notice) and
  /// pipefill (median per slot) will sell from now on is what the model has now. Nothing is sold before this call, by
  /// any gated strategy.
  void end_profile();
  /// Of the adaptive strategy: left unused at the end of every bubble (GuardController::guard).
  void set_guard(Nanoseconds guard) { guard_ = guard; }

  /// A bubble began at `begin`, it is `now`, and the input is not there. Asked again at the grant's `ask_again`:
  /// adaptive sells more as long as it knows of longer bubbles. `free_memory`: beside the main job in this bubble.
  /// `chunk`: time of the chunks that it is asked for; zero while they are not known.
  Grant decide(int position, Nanoseconds begin, Nanoseconds now, Bytes free_memory, Nanoseconds chunk) const;

  /// The stage's cycle as this strategy sells it, for the planner: lengths before guard, memory as seen.
  BubbleCycle cycle() const;
  /// What plan_* is to leave unused, to match `decide`.
  PlanSettings plan_settings() const;
  const StrategyTraits& traits() const { return traits_; }

 private:
  void fix_shortest_of_class();
  /// What is sold of a bubble that has lasted `elapsed` to chunks of that time, before guard and fill fraction.
  BubbleSale sale(int position, Nanoseconds elapsed, Nanoseconds chunk) const;

  StrategySettings settings_;
  StrategyTraits traits_;
  const BubbleModel& model_;
  std::vector<Nanoseconds> fixed_;  ///< by position in the program
  bool profiled_ = false;
  Nanoseconds guard_{0};
};

}  // namespace pipefill
