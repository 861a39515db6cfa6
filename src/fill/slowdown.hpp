// How much slower fill work makes the main job, measured in the run itself: blocks of filled and unfilled steps side by
// side, compared in pairs, so that whatever changes slowly (clock rates, other tenants, data) cancels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/units.hpp"

namespace pipefill {

struct AuditSettings {
  std::int64_t first_step = 1;  ///< of the audit; the steps before it run unfilled (profiling)
  std::int64_t block = 10;      ///< steps of one side of a pair
  double audit = 0.1;  ///< share of the steps that run unfilled for comparison: 0 (never) .. 0.5 (half of them)
};

/// unfilled: no grant in this step, and waiting in the fastest way there is (DESIGN section 5, "slowdown").
enum class StepMode { unfilled, filled };

/// Which steps are filled. In every period of round(block / audit) steps the last `block` are unfilled. They pair with
/// as many filled ones, half of them just before and half just after, so that a linear drift cancels in every pair.
class BlockSchedule {
 public:
  /// audit above 0.5 counts as 0.5; block >= 1.
  explicit BlockSchedule(AuditSettings settings);

  struct Step {
    StepMode mode = StepMode::unfilled;
    std::int64_t pair = -1;  ///< -1: in no pair
    friend bool operator==(const Step&, const Step&) = default;
  };
  Step at(std::int64_t step) const;
  StepMode mode(std::int64_t step) const { return at(step).mode; }
  std::int64_t block() const { return settings_.block; }
  /// Share of the steps that run unfilled, as the period's rounding leaves it.
  double unfilled_share() const;

 private:
  AuditSettings settings_;
  std::int64_t period_ = 0;  ///< 0: no audit
};

/// Median of the pairs' slowdowns, and an interval that holds the true median with at least the asked confidence.
struct SlowdownEstimate {
  double median = 0;  ///< 0.01 is 1 %; 0 without pairs
  double low = 0;     ///< -infinity where there are too few pairs (below six for 95 %)
  double high = 0;    ///< infinity likewise
  std::int64_t pairs = 0;
};

/// See base/median_interval.hpp.
SlowdownEstimate estimate_slowdown(std::span<const double> slowdowns, double confidence = 0.95);

/// Makes pairs of step times. One slowdown per pair: mean filled step / mean unfilled step - 1 (means, for rare long
/// steps that fill work causes are its own).
class SlowdownMeter {
 public:
  explicit SlowdownMeter(BlockSchedule schedule) : schedule_(schedule) {}

  struct Pair {
    double slowdown = 0;
    Nanoseconds unfilled_step{};  ///< mean
  };
  /// A step took `time`. Steps that something else disturbed (a checkpoint, a validation) are left out; so are those
  /// that should have been filled but ran unfilled, with no work there. Returns the pair that this step shows to be
  /// over; one with less than half of its steps on either side is dropped.
  std::optional<Pair> step(std::int64_t step, Nanoseconds time, StepMode ran);

  /// Of all pairs of the run, in order.
  const std::vector<double>& slowdowns() const { return slowdowns_; }
  SlowdownEstimate estimate() const { return estimate_slowdown(slowdowns_); }

 private:
  struct Side {
    Nanoseconds sum{};
    std::int64_t steps = 0;
  };
  std::optional<Pair> close();

  BlockSchedule schedule_;
  std::int64_t open_ = -1;  ///< pair
  Side filled_, unfilled_;
  std::vector<double> slowdowns_;
};

}  // namespace pipefill
