// Which steps are filled, and what the filled ones cost beside the others.
#include "fill/slowdown.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/contract.hpp"
#include "base/median_interval.hpp"

namespace pipefill {

BlockSchedule::BlockSchedule(AuditSettings settings) : settings_(settings) {
  PF_EXPECT(settings.block >= 1 && settings.audit >= 0);
  if (settings.audit > 0) {
    const auto block = static_cast<double>(settings.block);
    period_ = std::llround(std::max(2 * block, block / settings.audit));
  }
}

BlockSchedule::Step BlockSchedule::at(std::int64_t step) const {
  const std::int64_t offset = step - settings_.first_step;
  if (offset < 0) return {StepMode::unfilled, -1};
  if (period_ == 0) return {StepMode::filled, -1};
  const std::int64_t period = offset / period_, place = offset % period_;
  const std::int64_t filled = period_ - settings_.block, after = settings_.block / 2;
  if (place >= filled) return {StepMode::unfilled, period};
  if (place >= filled - (settings_.block - after)) return {StepMode::filled, period};
  return {StepMode::filled, place < after ? period - 1 : -1};  // -1 also in the first period
}

double BlockSchedule::unfilled_share() const {
  return period_ == 0 ? 0 : static_cast<double>(settings_.block) / static_cast<double>(period_);
}

SlowdownEstimate estimate_slowdown(std::span<const double> slowdowns, double confidence) {
  const MedianInterval made = median_interval(slowdowns, confidence);
  return {made.median, made.low, made.high, made.count};
}

std::optional<SlowdownMeter::Pair> SlowdownMeter::close() {
  const Side filled = std::exchange(filled_, {}), unfilled = std::exchange(unfilled_, {});
  if (2 * std::min(filled.steps, unfilled.steps) < schedule_.block()) return std::nullopt;
  if (filled.steps == 0 || unfilled.sum <= Nanoseconds{0}) return std::nullopt;
  const double ratio = (to_seconds(filled.sum) / static_cast<double>(filled.steps)) /
                       (to_seconds(unfilled.sum) / static_cast<double>(unfilled.steps));
  slowdowns_.push_back(ratio - 1);
  return Pair{ratio - 1, unfilled.sum / unfilled.steps};
}

std::optional<SlowdownMeter::Pair> SlowdownMeter::step(std::int64_t step, Nanoseconds time, StepMode ran) {
  const auto [mode, pair] = schedule_.at(step);
  std::optional<Pair> over;
  if (pair != open_) {
    over = close();
    open_ = pair;
  }
  if (pair < 0 || ran != mode) return over;
  Side& side = mode == StepMode::filled ? filled_ : unfilled_;
  side.sum += time;
  ++side.steps;
  if (filled_.steps == schedule_.block() && unfilled_.steps == schedule_.block()) {
    over = close();
    open_ = -1;
  }
  return over;
}

}  // namespace pipefill
