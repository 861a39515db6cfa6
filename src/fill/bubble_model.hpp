// What is known of a stage's bubbles while the run goes on: how long each slot lasts, how far that can be relied upon,
// how much of it may be sold to fill work. Fed by every bubble's arrival, filled or not.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "fill/recent_times.hpp"
#include "schedule/schedule.hpp"

namespace pipefill {

struct BubbleModelSettings {
  double band = 0.25;             ///< a length further than this share from the median is not like the others ...
  Nanoseconds tolerance{20'000};  ///< ... unless it is nearer than this
  double overrun_share = 0.1;     ///< of a fill chunk, at most expected to run after the arrival; stable slots
  double cautious_share = 0.05;   ///< the same of unstable ones; of unknown ones none
};

/// unknown: too few bubbles seen since the start or the last drift. unstable: often far off (a straggler), or wide.
enum class SlotTrust { unknown, stable, unstable };

/// What may be sold of a bubble that goes on, in times since its beginning.
struct BubbleSale {
  Nanoseconds until{};      ///< chunks should end by then; not after the present: none should start
  Nanoseconds ask_again{};  ///< when there may be more to sell, if the input is still not there
};

/// What there is to say of one slot. Lengths from the end of the previous instruction to the arrival.
struct SlotStatistics {
  Nanoseconds expected{};  ///< what a plan may count on; zero before the first bubble
  Nanoseconds median{};
  Nanoseconds shortest{};
  std::int64_t count = 0;  ///< bubbles seen in all
  SlotTrust trust = SlotTrust::unknown;
  Bytes free_memory{};  ///< lowest of the last 32 to 64 bubbles
};

/// One slot. Far too long lengths wait aside until kDrift in a row agree: one straggler never raises what is sold, a
/// real change is followed after kDrift bubbles. Far too short ones count at once. Never allocates.
class BubbleSlotModel {
 public:
  static constexpr int kDrift = 4;

  explicit BubbleSlotModel(BubbleClass why = BubbleClass::steady) : why_(why) {}

  void record(Nanoseconds length, Bytes free_memory, const BubbleModelSettings& settings);

  BubbleClass why() const { return why_; }
  SlotStatistics statistics(const BubbleModelSettings& settings) const;
  /// What to sell of a bubble that has lasted `elapsed`, in chunks of about `chunk` (sell_until). One that outlasts all
  /// known ones may end at any time; that it does so within the next chunk is as likely as chunk / elapsed.
  BubbleSale sale(Nanoseconds elapsed, Nanoseconds chunk, const BubbleModelSettings& settings) const;

 private:
  Nanoseconds longest_of_the_last() const;
  enum class Side { below, within, above };
  Side side(Nanoseconds length, const BubbleModelSettings& settings) const;
  SlotTrust trust(const BubbleModelSettings& settings) const;

  BubbleClass why_;
  RecentTimes lengths_;
  std::array<Nanoseconds, kDrift> last_{};  ///< as they came, ring by count_
  Side run_side_ = Side::within;
  int run_ = 0;                ///< so many in a row on run_side_
  std::uint32_t strange_ = 0;  ///< one bit for each of the last 32: not within the band
  std::int64_t count_ = 0;
  Bytes lowest_now_{INT64_MAX}, lowest_before_{INT64_MAX};
};

/// All slots of one stage. A slot is named by the position of its Bubble in the stage's program; OptimizerStep is one
/// as well, for a stage with a tied embedding waits twice at the step's end: for the other half of its gradient in
/// front of it, for the global norm in it.
class BubbleModel {
 public:
  explicit BubbleModel(const Program& program, BubbleModelSettings settings = {});

  /// A bubble ended. `position` is that of a slot. Never allocates.
  void record(int position, Nanoseconds length, Bytes free_memory) {
    slot(position).record(length, free_memory, settings_);
  }

  const std::vector<int>& positions() const { return positions_; }
  BubbleClass why(int position) const { return slot(position).why(); }
  SlotStatistics statistics(int position) const { return slot(position).statistics(settings_); }
  /// `chunk`: how long the chunks are that want to run in it; zero where nothing is known of them.
  BubbleSale sale(int position, Nanoseconds elapsed, Nanoseconds chunk) const {
    return slot(position).sale(elapsed, std::max(chunk, kShortestChunk), settings_);
  }

 private:
  std::size_t index(int position) const {
    PF_EXPECT(position >= 0 && position < static_cast<int>(slot_at_.size()));
    PF_EXPECT(slot_at_[static_cast<std::size_t>(position)] >= 0);
    return static_cast<std::size_t>(slot_at_[static_cast<std::size_t>(position)]);
  }
  const BubbleSlotModel& slot(int position) const { return slots_[index(position)]; }
  BubbleSlotModel& slot(int position) { return slots_[index(position)]; }

  static constexpr Nanoseconds kShortestChunk{20'000};

  BubbleModelSettings settings_;
  std::vector<int> slot_at_;    ///< position in the program -> index in slots_, -1 where there is no Bubble
  std::vector<int> positions_;  ///< ascending; parallel to slots_
  std::vector<BubbleSlotModel> slots_;
};

}  // namespace pipefill
