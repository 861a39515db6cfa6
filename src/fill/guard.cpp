#include "fill/guard.hpp"

#include <algorithm>
#include <cmath>

namespace pipefill {
namespace {

// In pairs.
constexpr std::size_t kWindow = 256;
constexpr std::size_t kCalm = 64;
constexpr std::size_t kDecide = 32;
constexpr std::size_t kAlarm = 3;
constexpr std::int64_t kMostPatience = 4096;

void push(std::vector<double>& last, double value, std::size_t most) {
  if (last.size() == most) last.erase(last.begin());
  last.push_back(value);
}

}  // namespace

GuardController::GuardController(GuardSettings settings) : settings_(settings), guard_(settings.start) {}

double GuardController::noise() const {
  std::vector<double> sorted = changes_;
  std::sort(sorted.begin(), sorted.end());
  return sorted.empty() ? 0 : sorted[sorted.size() / 2] / 0.954;  // of a normal distribution: 0.6745 x sqrt(2)
}

GuardMove GuardController::pair(const SlowdownMeter::Pair& pair, int bubbles, Nanoseconds longest) {
  longest_ = longest;
  if (!recent_.empty()) push(changes_, std::abs(pair.slowdown - recent_.back()), kCalm);
  push(recent_, pair.slowdown, kWindow);
  ++calm_;
  const double limit = settings_.max_slowdown;
  const std::size_t pairs = recent_.size();
  const SlowdownEstimate now = estimate();
  const bool over = now.low > limit || (pairs >= kDecide && now.low > limit / 2) ||
                    (pairs == kWindow && now.high > limit && now.median > limit / 2);
  if (over) return raise(now.median, pair.unfilled_step, bubbles);
  if (pairs >= kAlarm) {
    const double least = *std::min_element(recent_.end() - kAlarm, recent_.end());
    if (least > 2 * (limit + noise())) return raise(least, pair.unfilled_step, bubbles);
  }
  if (pairs >= kDecide && now.high <= limit) in_a_row_ = 0;
  if (pairs >= kCalm && now.high <= limit && now.median < limit / 4) return lower();
  return GuardMove::none;
}

GuardMove GuardController::raise(double slowdown, Nanoseconds step, int bubbles) {
  recent_.clear();
  if (suspended()) return GuardMove::none;
  const double excess = slowdown - settings_.max_slowdown / 2;
  const double per_bubble = excess * static_cast<double>(step.count()) / std::max(1, bubbles);
  const Nanoseconds more{static_cast<std::int64_t>(per_bubble) << std::min(in_a_row_, 10)};
  if (guard_ >= too_small_) too_small_ = guard_;
  patience_ = std::clamp<std::int64_t>(2 * patience_, kCalm, kMostPatience);
  ++in_a_row_;
  calm_ = 0;
  guard_ = std::min(guard_ + std::max(settings_.quantum, more), std::max(longest_, guard_));
  return GuardMove::raised;
}

GuardMove GuardController::lower() {
  Nanoseconds next = std::max(settings_.least, guard_ * 3 / 4);
  if (next <= too_small_) {
    if (calm_ < patience_) {
      next = (guard_ + too_small_) / 2 + Nanoseconds{1};
    } else {
      too_small_ = Nanoseconds{-1};
    }
  }
  if (next >= guard_ || guard_ - next < settings_.quantum / 4) return GuardMove::none;
  recent_.clear();
  guard_ = next;
  return GuardMove::lowered;
}

}  // namespace pipefill
