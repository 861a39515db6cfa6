// Prices a schedule: one pass forwards in the dry run's order for starts and ends, one backwards for slack.
#include "schedule/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "schedule/dependencies.hpp"
#include "schedule/dry_run.hpp"

namespace pipefill {
namespace {

class Pricing {
 public:
  Pricing(const Schedule& schedule, const CostModel& costs)
      : schedule_(schedule),
        costs_(costs),
        dependencies_(find_dependencies(schedule)),
        cursor_(schedule.programs.size()),
        reduction_end_(schedule.programs.size()) {
    for (const Program& program : schedule.programs) {
      timeline_.stages.emplace_back().instructions.resize(program.size());
      done_.emplace_back(program.size());
    }
  }

  Timeline operator()() {
    const DryRun run = dry_run(schedule_);
    if (!run.complete()) {
      throw ScheduleError(fmt::format("schedule '{}' cannot run to its end: {}", schedule_.name, run.cycle));
    }
    for (const Place place : run.order) place_in_time(place);
    for (const Nanoseconds end : cursor_) timeline_.makespan = std::max(timeline_.makespan, end);
    wait_for_end_of_step();
    find_slack(run.order);
    add_up();
    return std::move(timeline_);
  }

 private:
  const Instruction& at(Place place) const {
    return schedule_.programs[static_cast<std::size_t>(place.stage)][static_cast<std::size_t>(place.index)];
  }
  TimedInstruction& timed(Place place) {
    return timeline_.stages[static_cast<std::size_t>(place.stage)].instructions[static_cast<std::size_t>(place.index)];
  }
  const std::vector<Dependency>& dependencies(Place place) const {
    return dependencies_[static_cast<std::size_t>(place.stage)][static_cast<std::size_t>(place.index)];
  }
  /// When a reduction started by the instruction at `place` is done; the end of any other instruction.
  Nanoseconds& done(Place place) {
    return done_[static_cast<std::size_t>(place.stage)][static_cast<std::size_t>(place.index)];
  }
  Nanoseconds lag(const Dependency& dependency) {
    switch (dependency.link) {
      case Link::local:
        return Nanoseconds{0};
      case Link::message:
        return costs_.hop;
      case Link::reduction:
        return done(dependency.on) - timed(dependency.on).end;
    }
    return Nanoseconds{0};
  }

  Nanoseconds duration(Place place) const {
    const auto cost = [&](const auto& i) -> const ChunkCost& {
      return costs_.chunks[static_cast<std::size_t>(i.chunk.value)];
    };
    return std::visit(
        Overloaded{
            [&](const Forward& i) { return cost(i).forward; },
            [&](const Backward& i) { return cost(i).backward(); },
            [&](const BackwardInput& i) { return cost(i).backward_input; },
            [&](const BackwardWeight& i) { return cost(i).backward_weight; },
            [&](const OptimizerStep&) { return costs_.stages[static_cast<std::size_t>(place.stage)].optimizer; },
            [](const auto&) { return Nanoseconds{0}; },
        },
        at(place));
  }

  void place_in_time(Place place) {
    const auto stage = static_cast<std::size_t>(place.stage);
    const Nanoseconds free = cursor_[stage];
    Nanoseconds own_ready = free, ready = free;  // what this stage made itself; everything
    for (const Dependency& dependency : dependencies(place)) {
      const Nanoseconds arrival = timed(dependency.on).end + lag(dependency);
      ready = std::max(ready, arrival);
      if (dependency.on.stage == place.stage) own_ready = std::max(own_ready, arrival);
    }
    if (std::holds_alternative<OptimizerStep>(at(place))) {
      wait(place, BubbleClass::collective, free, own_ready);
      wait(place, BubbleClass::step_boundary, own_ready, ready);
    } else if (!std::holds_alternative<Bubble>(at(place))) {
      wait(place, class_before(place), free, ready);
    }
    timed(place).start = ready;
    timed(place).end = cursor_[stage] = ready + duration(place);
    done(place) = timed(place).end;
    if (const auto* i = std::get_if<ReduceGradients>(&at(place))) {
      reduction_end_[stage] = done(place) =
          std::max(ready, reduction_end_[stage]) + costs_.chunks[static_cast<std::size_t>(i->chunk.value)].reduction;
    }
  }

  /// The class of the Bubble in front of `place`; steady where none was inserted.
  BubbleClass class_before(Place place) const {
    const auto* bubble = place.index > 0 ? std::get_if<Bubble>(&at({place.stage, place.index - 1})) : nullptr;
    return bubble ? bubble->why : BubbleClass::steady;
  }

  /// Records that the stage waits before `place`, in the Bubble of this class in front of it if there is one.
  void wait(Place place, BubbleClass why, Nanoseconds start, Nanoseconds end) {
    auto& bubbles = timeline_.stages[static_cast<std::size_t>(place.stage)].bubbles;
    for (Place before{place.stage, place.index - 1}; before.index >= 0; --before.index) {
      const auto* bubble = std::get_if<Bubble>(&at(before));
      if (bubble == nullptr) break;
      if (bubble->why != why) continue;
      timed(before).start = start, timed(before).end = done(before) = end;
      bubbles.push_back({before.index, why, start, end});
      return;
    }
    if (end > start) bubbles.push_back({-1, why, start, end});
  }

  void wait_for_end_of_step() {
    for (std::size_t stage = 0; stage < cursor_.size(); ++stage) {
      if (cursor_[stage] == timeline_.makespan) continue;
      timeline_.stages[stage].bubbles.push_back({-1, BubbleClass::step_boundary, cursor_[stage], timeline_.makespan});
    }
  }

  /// Slack = latest end that delays nobody beyond the makespan, minus the end. Bubbles give way: they last no time
  /// here.
  void find_slack(const std::vector<Place>& order) {
    std::vector<std::vector<Nanoseconds>> latest_end;
    for (const Program& program : schedule_.programs) latest_end.emplace_back(program.size(), timeline_.makespan);
    const auto latest = [&](Place place) -> Nanoseconds& {
      return latest_end[static_cast<std::size_t>(place.stage)][static_cast<std::size_t>(place.index)];
    };
    for (auto place = order.rbegin(); place != order.rend(); ++place) {
      const Nanoseconds latest_start = latest(*place) - duration(*place);
      if (place->index > 0) {
        Nanoseconds& before = latest({place->stage, place->index - 1});
        before = std::min(before, latest_start);
      }
      for (const Dependency& dependency : dependencies(*place)) {
        Nanoseconds& made = latest(dependency.on);
        made = std::min(made, latest_start - lag(dependency));
      }
      timed(*place).slack = latest(*place) - timed(*place).end;
    }
  }

  void add_up() {
    Nanoseconds all_busy{0}, longest_span{0};
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      StageTimeline& result = timeline_.stages[static_cast<std::size_t>(stage)];
      Nanoseconds first = timeline_.makespan, last{0};
      for (int index = 0; index < static_cast<int>(result.instructions.size()); ++index) {
        if (duration({stage, index}) == Nanoseconds{0}) continue;
        result.busy += duration({stage, index});
        first = std::min(first, timed({stage, index}).start);
        last = std::max(last, timed({stage, index}).end);
      }
      for (const TimedBubble& bubble : result.bubbles) result.idle += bubble.duration();
      find_peaks(stage, result);
      all_busy += result.busy;
      longest_span = std::max(longest_span, last - first);
    }
    const auto bubble_share = [&](Nanoseconds whole) {
      if (whole <= Nanoseconds{0}) return 0.0;
      return 1.0 - static_cast<double>(all_busy.count()) /
                       (static_cast<double>(whole.count()) * static_cast<double>(schedule_.stages()));
    };
    timeline_.bubble_fraction = bubble_share(timeline_.makespan);
    timeline_.device_span_bubble_fraction = bubble_share(longest_span);
  }

  /// Activations come with a forward and go with the backward (or its weight part); in evaluation with the forward.
  void find_peaks(int stage, StageTimeline& result) const {
    const auto held = std::count(schedule_.stage_of_chunk.begin(), schedule_.stage_of_chunk.end(), StageId{stage});
    const bool keeps = has_backward(schedule_);
    int now = 0, peak = 0;
    Bytes bytes_now;
    const auto take = [&](const Forward& i) {
      peak = std::max(peak, ++now);
      bytes_now += costs_.chunks[static_cast<std::size_t>(i.chunk.value)].activations;
      result.peak_activations = std::max(result.peak_activations, bytes_now);
    };
    const auto give = [&](const auto& i) {
      --now;
      bytes_now -= costs_.chunks[static_cast<std::size_t>(i.chunk.value)].activations;
    };
    for (const Instruction& instruction : schedule_.programs[static_cast<std::size_t>(stage)]) {
      std::visit(Overloaded{
                     [&](const Forward& i) {
                       take(i);
                       if (!keeps) give(i);
                     },
                     [&](const Backward& i) { give(i); },
                     [&](const BackwardWeight& i) { give(i); },
                     [](const auto&) {},
                 },
                 instruction);
    }
    if (held > 0) result.peak_microbatches = static_cast<double>(peak) / static_cast<double>(held);
    result.peak_memory = costs_.stages[static_cast<std::size_t>(stage)].fixed + result.peak_activations;
  }

  const Schedule& schedule_;
  const CostModel& costs_;
  Dependencies dependencies_;
  std::vector<Nanoseconds> cursor_;         ///< per stage: end of what is placed so far
  std::vector<Nanoseconds> reduction_end_;  ///< per stage: its reductions run one after another
  std::vector<std::vector<Nanoseconds>> done_;
  Timeline timeline_;
};

}  // namespace

Timeline price(const Schedule& schedule, const CostModel& costs) {
  if (costs.chunks.size() != schedule.stage_of_chunk.size() || costs.stages.size() != schedule.programs.size()) {
    throw ScheduleError(fmt::format(
        "costs of {} chunks and {} stages cannot price a schedule of {} chunks and {} stages", costs.chunks.size(),
        costs.stages.size(), schedule.stage_of_chunk.size(), schedule.programs.size()));
  }
  return Pricing(schedule, costs)();
}

}  // namespace pipefill
