#include "fill/bubble_model.hpp"

#include <bit>
#include <span>

#include "fill/sale.hpp"

namespace pipefill {
namespace {

constexpr int kKnown = 8;        // lengths of the present level, before anything is sold at the quantile
constexpr int kStrangeOf32 = 5;  // so many of the last 32 outside of the band make a slot unstable
constexpr double kWidest = 0.5;  // (90 % quantile - 10 % quantile) / median of a stable slot

Nanoseconds scaled(Nanoseconds time, double factor) {
  return Nanoseconds{static_cast<std::int64_t>(static_cast<double>(time.count()) * factor)};
}

}  // namespace

BubbleSlotModel::Side BubbleSlotModel::side(Nanoseconds length, const BubbleModelSettings& settings) const {
  if (lengths_.empty()) return Side::within;
  const Nanoseconds median = lengths_.median();
  const Nanoseconds margin = std::max(settings.tolerance, scaled(median, settings.band));
  if (length > median + margin) return Side::above;
  if (length < median - margin) return Side::below;
  return Side::within;
}

void BubbleSlotModel::record(Nanoseconds length, Bytes free_memory, const BubbleModelSettings& settings) {
  last_[static_cast<std::size_t>(count_ % kDrift)] = length;
  if (count_ % RecentTimes::kMost == 0) lowest_before_ = lowest_now_, lowest_now_ = Bytes{INT64_MAX};
  lowest_now_ = std::min(lowest_now_, free_memory);
  ++count_;

  const Side where = side(length, settings);
  strange_ = strange_ << 1U | (where == Side::within ? 0U : 1U);
  run_ = where == run_side_ ? run_ + 1 : 1;
  run_side_ = where;
  if (where != Side::within && run_ >= kDrift) {
    lengths_.clear();
    for (const Nanoseconds recent : last_) lengths_.add(recent);
    run_ = 0;
  } else if (where != Side::above) {
    lengths_.add(length);
  }
}

SlotTrust BubbleSlotModel::trust(const BubbleModelSettings& settings) const {
  if (lengths_.size() < kKnown) return SlotTrust::unknown;
  if (std::popcount(strange_) >= kStrangeOf32) return SlotTrust::unstable;
  const Nanoseconds width = lengths_.quantile(0.9) - lengths_.quantile(0.1);
  const bool wide = width > std::max(settings.tolerance, scaled(lengths_.median(), kWidest));
  return wide ? SlotTrust::unstable : SlotTrust::stable;
}

/// Bubbles that shrink step by step leave most of the last 32 behind: never more than this at first.
Nanoseconds BubbleSlotModel::longest_of_the_last() const {
  const auto seen = static_cast<std::ptrdiff_t>(std::min<std::int64_t>(count_, kDrift));
  return seen == 0 ? Nanoseconds{0} : *std::max_element(last_.begin(), last_.begin() + seen);
}

BubbleSale BubbleSlotModel::sale(Nanoseconds elapsed, Nanoseconds chunk, const BubbleModelSettings& settings) const {
  constexpr Nanoseconds kNever = Nanoseconds::max();
  if (count_ == 0) return {elapsed, kNever};
  const SlotTrust trusted = trust(settings);
  const double share = trusted == SlotTrust::stable     ? settings.overrun_share
                       : trusted == SlotTrust::unstable ? settings.cautious_share
                                                        : 0;
  const std::span<const Nanoseconds> longer = lengths_.beyond(elapsed);
  if (longer.empty()) {
    const Nanoseconds safe = share > 0 ? scaled(chunk, 0.5 / share) : kNever;
    if (elapsed < safe) return {elapsed, safe};
    const Nanoseconds more = elapsed + std::max(chunk, elapsed / 4);
    return {more, more};
  }
  Nanoseconds until = sell_until(longer, elapsed, chunk, share);
  if (const Nanoseconds recent = longest_of_the_last(); recent > elapsed) until = std::min(until, recent);
  return {until, until > elapsed ? until : longer.front()};
}

SlotStatistics BubbleSlotModel::statistics(const BubbleModelSettings& settings) const {
  return {.expected = std::min(lengths_.median(), longest_of_the_last()),
          .median = lengths_.median(),
          .shortest = lengths_.quantile(0),
          .count = count_,
          .trust = trust(settings),
          .free_memory = count_ == 0 ? Bytes{0} : std::min(lowest_now_, lowest_before_)};
}

BubbleModel::BubbleModel(const Program& program, BubbleModelSettings settings)
    : settings_(settings), slot_at_(program.size(), -1) {
  for (std::size_t position = 0; position < program.size(); ++position) {
    const auto* bubble = std::get_if<Bubble>(&program[position]);
    if (bubble == nullptr && !std::holds_alternative<OptimizerStep>(program[position])) continue;
    slot_at_[position] = static_cast<int>(slots_.size());
    positions_.push_back(static_cast<int>(position));
    slots_.emplace_back(bubble != nullptr ? bubble->why : BubbleClass::step_boundary);
  }
}

}  // namespace pipefill
