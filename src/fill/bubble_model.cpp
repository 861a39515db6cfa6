#include "fill/bubble_model.hpp"

#include <bit>

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

Nanoseconds BubbleSlotModel::sellable(Nanoseconds elapsed, const BubbleModelSettings& settings) const {
  if (count_ == 0) return Nanoseconds{0};
  const double q = trust(settings) == SlotTrust::stable ? settings.quantile : settings.cautious_quantile;
  if (elapsed > Nanoseconds{0}) return std::max(elapsed, lengths_.quantile_beyond(elapsed, q).value_or(elapsed));
  // Bubbles that shrink step by step leave a quantile of the last 32 behind: never more than one of the last few.
  const auto seen = static_cast<std::ptrdiff_t>(std::min<std::int64_t>(count_, kDrift));
  return std::min(lengths_.quantile(q), *std::max_element(last_.begin(), last_.begin() + seen));
}

SlotStatistics BubbleSlotModel::statistics(const BubbleModelSettings& settings) const {
  return {.sellable = sellable(Nanoseconds{0}, settings),
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
    if (bubble == nullptr) continue;
    slot_at_[position] = static_cast<int>(slots_.size());
    positions_.push_back(static_cast<int>(position));
    slots_.emplace_back(bubble->why);
  }
}

}  // namespace pipefill
