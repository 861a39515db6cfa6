#include "fill/strategy.hpp"

#include <array>

namespace pipefill {
namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds kFreeRidePoll = 10ms;  // PAPER.md, "What its code shows", as are the next ones
constexpr Nanoseconds kFreeRidePause = 5ms;
constexpr Nanoseconds kFreeRideRound = 10ms;
constexpr double kFreeRideBudget = 1.2;

Nanoseconds rounded_up(Nanoseconds time, Nanoseconds unit) {
  return unit <= 0ns ? time : (time + unit - 1ns) / unit * unit;
}

}  // namespace

const char* strategy_name(FillStrategy strategy) {
  switch (strategy) {
    case FillStrategy::none:
      return "none";
    case FillStrategy::naive:
      return "naive";
    case FillStrategy::idle_priority:
      return "idle-priority";
    case FillStrategy::freeride:
      return "freeride";
    case FillStrategy::pipefill:
      return "pipefill";
    case FillStrategy::adaptive:
      return "adaptive";
  }
  return "";
}

Nanoseconds ChunkRule::budget(Nanoseconds measured) const {
  const Nanoseconds scaled{static_cast<std::int64_t>(static_cast<double>(measured.count()) * factor)};
  return rounded_up(scaled, round_to);
}

StrategyTraits traits_of(FillStrategy strategy) {
  StrategyTraits traits;
  traits.guarded = strategy == FillStrategy::adaptive;
  switch (strategy) {
    case FillStrategy::none:
      traits.runs_jobs = false;
      break;
    case FillStrategy::naive:
      traits.gated = false;
      traits.worker_class = WorkerClass::normal;
      break;
    case FillStrategy::idle_priority:
      traits.gated = false;
      break;
    case FillStrategy::freeride:
      // FreeRide's side task shares the device with the main job in the normal class; it ends by itself.
      traits.worker_class = WorkerClass::normal;
      traits.fixed_after_profile = true;
      traits.on_arrival = OnArrival::run_on;
      traits.rule = {kFreeRideBudget, kFreeRideRound, kFreeRidePause};
      traits.poll = kFreeRidePoll;
      break;
    case FillStrategy::pipefill:
      traits.worker_class = WorkerClass::normal;
      traits.fixed_after_profile = true;
      traits.on_arrival = OnArrival::run_on;
      traits.gaps = InnerGaps::leave;
      break;
    case FillStrategy::adaptive:
      break;
  }
  return traits;
}

GrantDecider::GrantDecider(StrategySettings settings, const BubbleModel& model)
    : settings_(settings), traits_(traits_of(settings.strategy)), model_(model) {
  if (!model.positions().empty()) fixed_.resize(static_cast<std::size_t>(model.positions().back()) + 1);
}

void GrantDecider::end_profile() {
  profiled_ = true;
  if (settings_.strategy == FillStrategy::freeride) return fix_shortest_of_class();
  for (const int position : model_.positions())
    fixed_[static_cast<std::size_t>(position)] = model_.statistics(position).median;
}

/// A slot whose waits mostly last less than the time between two polls is none of its bubbles.
void GrantDecider::fix_shortest_of_class() {
  const auto counts = [&](int position) { return model_.statistics(position).median >= kFreeRidePoll; };
  std::array<Nanoseconds, 5> shortest_of_class;
  shortest_of_class.fill(Nanoseconds::max());
  for (const int position : model_.positions()) {
    Nanoseconds& shortest = shortest_of_class[static_cast<std::size_t>(model_.why(position))];
    if (counts(position)) shortest = std::min(shortest, model_.statistics(position).shortest);
  }
  for (const int position : model_.positions())
    fixed_[static_cast<std::size_t>(position)] =
        counts(position) ? shortest_of_class[static_cast<std::size_t>(model_.why(position))] : Nanoseconds{0};
}

BubbleSale GrantDecider::sale(int position, Nanoseconds elapsed, Nanoseconds chunk) const {
  constexpr Nanoseconds kNever = Nanoseconds::max();
  if (traits_.gaps == InnerGaps::leave && model_.why(position) == BubbleClass::steady) return {0ns, kNever};
  if (traits_.fixed_after_profile) return {fixed_[static_cast<std::size_t>(position)], kNever};
  return model_.sale(position, elapsed, chunk);
}

PlanSettings GrantDecider::plan_settings() const {
  const bool pipefill = settings_.strategy == FillStrategy::pipefill;
  return {.guard = traits_.fixed_after_profile ? 0ns : guard_, .fill_fraction = pipefill ? settings_.fill_fraction : 1};
}

Grant GrantDecider::decide(int position, Nanoseconds begin, Nanoseconds now, Bytes free_memory,
                           Nanoseconds chunk) const {
  Grant grant{
      .ask_again = Nanoseconds::max(), .memory = free_memory, .on_arrival = traits_.on_arrival, .rule = traits_.rule};
  if (!traits_.runs_jobs) return grant;
  if (!traits_.gated) {
    grant.gate = Gate::open;
    grant.deadline = Nanoseconds::max();
    return grant;
  }
  if (!profiled_) return grant;
  const BubbleSale offer = sale(position, now - begin, chunk);
  grant.deadline = begin + usable({position, model_.why(position), offer.until, free_memory}, plan_settings());
  grant.not_before = rounded_up(now, traits_.poll);
  if (offer.ask_again < Nanoseconds::max()) grant.ask_again = begin + offer.ask_again;
  if (grant.not_before < grant.deadline) grant.gate = Gate::until_deadline;
  return grant;
}

BubbleCycle GrantDecider::cycle() const {
  BubbleCycle made;
  for (const int position : model_.positions()) {
    const SlotStatistics slot = model_.statistics(position);
    const Nanoseconds length = traits_.fixed_after_profile ? sale(position, 0ns, 0ns).until : slot.expected;
    made.push_back({position, model_.why(position), length, slot.free_memory});
  }
  return made;
}

}  // namespace pipefill
