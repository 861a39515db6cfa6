#include "fill/plan_fill.hpp"

#include <limits>

namespace pipefill {

Nanoseconds usable(const BubbleBudget& bubble, const PlanSettings& settings) {
  const auto part = static_cast<std::int64_t>(static_cast<double>(bubble.length.count()) * settings.fill_fraction);
  return std::max(Nanoseconds{0}, Nanoseconds{part} - settings.guard);
}

Nanoseconds PlannedBubble::used() const {
  Nanoseconds sum{0};
  for (const PlannedChunks& run : runs) sum += run.time;
  return sum;
}

Nanoseconds FillPlan::used() const {
  Nanoseconds sum{0};
  for (const PlannedBubble& bubble : bubbles) sum += bubble.used();
  return sum;
}

double FillPlan::samples() const {
  double sum = 0;
  for (const PlannedBubble& bubble : bubbles)
    for (const PlannedChunks& run : bubble.runs) sum += run.samples;
  return sum;
}

ChunkFit fit_chunks(const FillConfiguration& configuration, std::int64_t from, Nanoseconds room, Bytes memory,
                    std::int64_t most) {
  ChunkFit fit;
  configuration.chunks.walk(from, [&](const ChunkRun& run, std::int64_t count) {
    const Nanoseconds time = configuration.price(run).time;
    if (run.memory > memory) return false;
    std::int64_t taken = std::min(count, most - fit.count);
    if (time > Nanoseconds{0}) taken = std::min(taken, (room - fit.time) / time);
    if (taken == 0) return false;
    fit.count += taken;
    fit.time += time * taken;
    fit.samples += run.samples * static_cast<double>(taken);
    fit.memory = std::max(fit.memory, run.memory);
    return taken == count && fit.count < most;
  });
  return fit;
}

namespace {

/// One chain through the cycle: each(bubble's index, first chunk, fit) for every bubble that takes something.
template <class Each>
void partition(const FillConfiguration& configuration, std::int64_t done, const BubbleCycle& cycle,
               const PlanSettings& settings, InnerGaps gaps, Each&& each) {
  for (const BubbleBudget& bubble : cycle)  // the state stays from bubble to bubble, also through the unused ones
    if (configuration.resident > bubble.memory) return;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (gaps == InnerGaps::leave && cycle[i].why == BubbleClass::steady) continue;
    const ChunkFit fit =
        fit_chunks(configuration, done, usable(cycle[i], settings), cycle[i].memory - configuration.resident);
    if (fit.count > 0) each(i, done, fit);
    done += fit.count;
  }
}

}  // namespace

CycleRate best_rate(const FillJobInfo& job, const BubbleCycle& cycle, const PlanSettings& settings, InnerGaps gaps) {
  CycleRate best{.cycles = std::numeric_limits<double>::infinity()};
  for (int c = 0; c < static_cast<int>(job.configurations.size()); ++c) {
    if (!job.allows(c)) continue;
    const FillConfiguration& configuration = job.configurations[static_cast<std::size_t>(c)];
    const std::int64_t done = job.progress.done();
    Nanoseconds used{0};
    partition(configuration, done, cycle, settings, gaps,
              [&](std::size_t, std::int64_t, const ChunkFit& fit) { used += fit.time; });
    if (used == Nanoseconds{0}) continue;
    const double cycles = to_seconds(configuration.remaining_time(done)) / to_seconds(used);
    if (cycles < best.cycles) best = {c, used, cycles};
  }
  return best;
}

FillPlan plan_pipefill(const FillJobInfo& job, const BubbleCycle& cycle, const PlanSettings& settings) {
  FillPlan best{std::vector<PlannedBubble>(cycle.size()), {}};
  double best_samples = 0;
  for (int c = 0; c < static_cast<int>(job.configurations.size()); ++c) {
    if (!job.allows(c)) continue;
    FillPlan plan{std::vector<PlannedBubble>(cycle.size()), {}};
    partition(job.configurations[static_cast<std::size_t>(c)], job.progress.done(), cycle, settings, InnerGaps::leave,
              [&](std::size_t i, std::int64_t first, const ChunkFit& fit) {
                plan.bubbles[i].runs.push_back({job.id, c, first, fit.count, fit.time, fit.samples, fit.memory});
              });
    plan.work = plan.used();
    const double samples = plan.samples();
    if (samples > best_samples || (best.work == Nanoseconds{0} && plan.work > best.work)) {
      best_samples = samples;
      best = std::move(plan);
    }
  }
  return best;
}

}  // namespace pipefill
