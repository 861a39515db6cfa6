// The controller that keeps the promise: it moves the guard, what is left unused at the end of each bubble, so that the
// upper end of the measured slowdown's interval stays under the promised limit.
#pragma once

#include <vector>

#include "fill/slowdown.hpp"

namespace pipefill {

struct GuardSettings {
  double max_slowdown = 0.01;   ///< the promise (fill.max_slowdown)
  Nanoseconds start{50'000};    ///< guard to begin with
  Nanoseconds least{0};         ///< never below
  Nanoseconds quantum{20'000};  ///< least change upwards
  double confidence = 0.95;     ///< of the interval
};

/// Why the guard is where it is; for the log and the trace.
enum class GuardMove {
  none,
  raised,     ///< the slowdown is, or may well be, over the limit
  suspended,  ///< raised beyond the longest bubble: nothing is sold for a while
  lowered,    ///< it has long been far below
};

/// Fed with every pair of blocks. After each move the pairs measured under the old guard are forgotten, for they say
/// nothing of the new one.
///
/// Up: at once when the whole interval is over the limit, or when three pairs in a row are over twice the limit and two
/// deviations of the pairs' noise besides, known from at least nine; after 32 pairs when the interval is over half the
/// limit; and when its upper end is over the limit and the median over half of it, once it is narrower than the limit
/// or, in much noise, 256 pairs are remembered, which is the most. By how much: an excess e over half the limit is e x
/// step / bubbles per bubble, if overruns cause it; doubled with every raise that comes within 64 pairs of the last
/// one, which was not enough then. e is counted from the interval's lower end, after 32 pairs from half way between it
/// and the median, at last from the median: noise often looks like an excess, but seldom shows one.
///
/// Down: by a quarter, after 64 pairs with the upper end under the limit and the median under a quarter of it; after
/// 256 with such a median where the noise lets nothing be shown, the lower end being under 0; and, when filling is
/// suspended, as soon as the patience is over. Not back to where it once was too small before the patience is over,
/// which is twice that of the last time.
///
/// Deterministic: ranks that are fed the same step times agree without talking.
class GuardController {
 public:
  explicit GuardController(GuardSettings settings);

  /// One pair is over. `bubbles`: how many are sold in a step. `longest`: what is expected of the longest of them. A
  /// guard as long sells nothing, which is what suspends filling; it is then twice as long and goes no further up.
  GuardMove pair(const SlowdownMeter::Pair& pair, int bubbles, Nanoseconds longest);

  Nanoseconds guard() const { return guard_; }
  /// What made it rise last: a slowdown of at least so much in so many pairs.
  struct Cause {
    double slowdown = 0;
    std::int64_t pairs = 0;
  };
  const Cause& cause() const { return cause_; }
  /// Of the pairs since the guard last moved.
  SlowdownEstimate estimate() const { return estimate_slowdown(recent_, settings_.confidence); }
  /// Whether the promise is shown to hold under the present guard: the interval's upper end is under the limit.
  bool holds() const { return estimate().high <= settings_.max_slowdown; }
  /// Whether nothing is sold at all.
  bool suspended() const { return longest_ > Nanoseconds{0} && guard_ >= longest_; }

 private:
  GuardMove raise(double slowdown, Nanoseconds step, int bubbles);
  GuardMove lower();
  /// Standard deviation of one pair's noise, from the median of changes_.
  double noise() const;

  GuardSettings settings_;
  Nanoseconds guard_;
  Nanoseconds longest_{0};
  Cause cause_;
  std::vector<double> recent_;   ///< since the last move, the last 256
  std::vector<double> changes_;  ///< from pair to pair, the last 64, absolute: the noise, whatever the level
  int in_a_row_ = 0;             ///< raises within 64 pairs of the one before
  Nanoseconds too_small_{-1};    ///< the largest guard that did not hold
  std::int64_t patience_ = 0;    ///< pairs to stay above too_small_
  std::int64_t calm_ = 0;        ///< pairs since the last raise
};

}  // namespace pipefill
