// What a person sees of a running job: a line a step (or every so many), or one bar on a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/log.hpp"
#include "base/units.hpp"

namespace pipefill {

enum class ProgressStyle { automatic, bar, plain, none };

struct StepReport {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double loss = 0;           ///< nats a token, mean over the step
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  Nanoseconds step_time{0};
  std::int64_t tokens = 0;                ///< trained in this step, all replicas
  std::optional<double> bubble_fraction;  ///< of the step before; none in the first
  std::optional<double> fill_coverage;    ///< of rank 0's bubble time in filled steps so far, with a fill chunk in it
  std::optional<double> slowdown;         ///< median of the pairs so far, 0.01 is 1 %
  Nanoseconds eta{0};
};

/// "step 120/2000 loss 3.2141 gnorm 0.71 lr 3.0e-04 | 412 ms 39.8k tok/s | bubble 23.1% | eta 1:02:11"
std::string step_line(const StepReport& report);

/// A bar only where a person watches a terminal. Under Open MPI a rank's stdout is always a pseudo terminal without a
/// width, even in a batch log (docs/decisions/0002), so isatty alone says nothing.
bool terminal_is_watched();

class ProgressDisplay {
 public:
  /// `every`: steps between plain lines; the first five steps and the last are always shown.
  ProgressDisplay(ProgressStyle style, std::int64_t every, Log log);
  void show(const StepReport& report);
  /// Ends the bar's line, so that what follows starts on a fresh one.
  void finish();

 private:
  ProgressStyle style_;
  std::int64_t every_;
  Log log_;
  int shown_ = 0;
};

}  // namespace pipefill
