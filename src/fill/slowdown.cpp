#include "fill/slowdown.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/contract.hpp"

namespace pipefill {
namespace {

/// Largest k with P(Binomial(n, 1/2) < k) <= tail; 0 when there is none.
std::int64_t order_of_bound(std::int64_t n, double tail) {
  double log_term = -static_cast<double>(n) * std::log(2.0), below = 0;  // P(Binomial = k), P(Binomial < k)
  for (std::int64_t k = 0; k < n; ++k) {
    below += std::exp(log_term);
    if (below > tail) return k;
    log_term += std::log(static_cast<double>(n - k) / static_cast<double>(k + 1));
  }
  return 0;
}

}  // namespace

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
  if (slowdowns.empty()) return {0, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  std::vector<double> sorted(slowdowns.begin(), slowdowns.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  SlowdownEstimate made;
  made.pairs = static_cast<std::int64_t>(n);
  made.median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  const auto k = static_cast<std::size_t>(order_of_bound(made.pairs, (1 - confidence) / 2));
  made.low = k == 0 ? -std::numeric_limits<double>::infinity() : sorted[k - 1];
  made.high = k == 0 ? std::numeric_limits<double>::infinity() : sorted[n - k];
  return made;
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

std::optional<SlowdownMeter::Pair> SlowdownMeter::step(std::int64_t step, Nanoseconds time) {
  const auto [mode, pair] = schedule_.at(step);
  std::optional<Pair> over;
  if (pair != open_) {
    over = close();
    open_ = pair;
  }
  if (pair < 0) return over;
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
