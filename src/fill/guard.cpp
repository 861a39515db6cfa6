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
constexpr std::size_t kKnownNoise = 8;
constexpr int kSuspended = 2;  // times the longest bubble: also when they become somewhat longer
constexpr std::int64_t kMostPatience = 512;

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
  if (suspended()) return calm_ >= patience_ ? lower() : GuardMove::none;  // whatever is seen now is not fill work
  const double limit = settings_.max_slowdown;
  const std::size_t pairs = recent_.size();
  const SlowdownEstimate now = estimate();
  if (pairs >= kDecide && now.low > limit / 2) return raise((now.low + now.median) / 2, pair.unfilled_step, bubbles);
  if (now.low > limit) return raise(now.low, pair.unfilled_step, bubbles);
  const bool known = now.high - now.low < limit || pairs == kWindow;
  if (known && now.high > limit && now.median > limit / 2) return raise(now.median, pair.unfilled_step, bubbles);
  if (pairs >= kAlarm && changes_.size() >= kKnownNoise) {
    const double least = *std::min_element(recent_.end() - kAlarm, recent_.end());
    if (least > 2 * (limit + noise())) return raise(least - noise(), pair.unfilled_step, bubbles);
  }
  const bool calm = pairs >= kCalm && now.high <= limit && now.median < limit / 4;
  const bool lost_in_noise = pairs == kWindow && now.low < 0 && now.median < limit / 4;
  return calm || lost_in_noise ? lower() : GuardMove::none;
}

GuardMove GuardController::raise(double slowdown, Nanoseconds step, int bubbles) {
  cause_ = {slowdown, std::ssize(recent_)};
  recent_.clear();
  in_a_row_ = patience_ > 0 && calm_ < std::int64_t{kCalm} ? in_a_row_ + 1 : 0;  // no patience yet: the first one
  const double excess = std::max(0.0, slowdown - settings_.max_slowdown / 2);
  const double per_bubble = excess * static_cast<double>(step.count()) / std::max(1, bubbles);
  const Nanoseconds more{static_cast<std::int64_t>(per_bubble) << std::min(in_a_row_, 10)};
  if (guard_ >= too_small_) too_small_ = guard_;
  patience_ = std::clamp<std::int64_t>(2 * patience_, kCalm, kMostPatience);
  calm_ = 0;
  guard_ += std::max(settings_.quantum, more);
  if (!suspended()) return GuardMove::raised;
  guard_ = kSuspended * longest_;
  return GuardMove::suspended;
}

GuardMove GuardController::lower() {
  Nanoseconds next = std::max(settings_.least, std::min(guard_, longest_) * 3 / 4);
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
