// plan_shared: a beam search over the bubbles of a cycle. A state is how far each job has come; the work done is a
// function of that, so states with equal positions are one.
#include <algorithm>
#include <numeric>

#include "fill/plan_fill.hpp"

namespace pipefill {
namespace {

constexpr std::size_t kBeam = 64;
constexpr std::int64_t kAllCounts = 8;  // up to so many chunks of a job in a bubble, every count is tried
constexpr double kGoodEnough = 0.99;    // of the cycle

using Positions = std::array<std::int64_t, kMostSharing>;

struct Sharer {
  const FillJobInfo* job = nullptr;
  int configuration = 0;
  double worth = 1;  ///< of a nanosecond in this configuration, in nanoseconds of the fastest
  const FillConfiguration& chunks() const { return job->configurations[static_cast<std::size_t>(configuration)]; }
};

struct State {
  Positions done{};
  double work = 0;
  std::size_t parent = 0;  ///< index on the level before
};

/// The sharers in their order of preference, sharing one cycle.
class SharedSearch {
 public:
  SharedSearch(std::vector<Sharer> sharers, const BubbleCycle& cycle, const PlanSettings& settings)
      : sharers_(std::move(sharers)), cycle_(cycle), settings_(settings) {
    for (const Sharer& sharer : sharers_) resident_ += sharer.chunks().resident;
  }

  /// Whether the states of all lie in memory together, in every bubble.
  bool resident_fits() const {
    return std::all_of(cycle_.begin(), cycle_.end(), [&](const BubbleBudget& b) { return resident_ <= b.memory; });
  }
  /// Whether memory binds nowhere: then more jobs are never worse.
  bool memory_is_plenty() const {
    Bytes largest{0};
    for (const Sharer& sharer : sharers_)
      sharer.chunks().chunks.total(sharer.job->progress.done(),
                                   [&](const ChunkRun& run, std::int64_t) { largest = std::max(largest, run.memory); });
    return std::all_of(cycle_.begin(), cycle_.end(),
                       [&](const BubbleBudget& b) { return resident_ + largest <= b.memory; });
  }

  FillPlan in_order() const {
    std::vector<State> path{start()};
    for (std::size_t bubble = 0; bubble < cycle_.size(); ++bubble) {
      State next = path.back();
      Nanoseconds room = usable(cycle_[bubble], settings_);
      for (std::size_t j = 0; j < sharers_.size(); ++j) {
        const ChunkFit fit = fit_at(bubble, j, next.done[j], room);
        take(next, j, fit);
        room -= fit.time;
      }
      path.push_back(next);
    }
    return plan_of(path);
  }

  FillPlan best() const {
    std::vector<std::vector<State>> levels{{start()}};
    for (std::size_t bubble = 0; bubble < cycle_.size(); ++bubble) {
      std::vector<State> next;
      for (std::size_t i = 0; i < levels.back().size(); ++i) {
        State state = levels.back()[i];
        state.parent = i;
        expand(bubble, 0, usable(cycle_[bubble], settings_), levels.back()[i], state, next);
      }
      keep_best(next);
      levels.push_back(std::move(next));
    }
    std::vector<State> path{levels.back().front()};
    for (std::size_t level = levels.size() - 1; level-- > 0;) path.push_back(levels[level][path.back().parent]);
    std::reverse(path.begin(), path.end());
    return plan_of(path);
  }

 private:
  State start() const {
    State state;
    for (std::size_t j = 0; j < sharers_.size(); ++j) state.done[j] = sharers_[j].job->progress.done();
    return state;
  }

  ChunkFit fit_at(std::size_t bubble, std::size_t j, std::int64_t from, Nanoseconds room,
                  std::int64_t most = INT64_MAX) const {
    return fit_chunks(sharers_[j].chunks(), from, room, cycle_[bubble].memory - resident_, most);
  }

  void take(State& state, std::size_t j, const ChunkFit& fit) const {
    state.done[j] += fit.count;
    state.work += static_cast<double>(fit.time.count()) * sharers_[j].worth;
  }

  /// Every way to fill a bubble that leaves no room for any job's next chunk. (Moving a chunk forward into such room
  /// would harm nothing, so the best plan is among these.) Of many small chunks not every count is tried.
  void expand(std::size_t bubble, std::size_t j, Nanoseconds room, const State& before, const State& state,
              std::vector<State>& out) const {
    const std::int64_t most = fit_at(bubble, j, state.done[j], room).count;
    const bool last = j + 1 == sharers_.size();
    for (std::int64_t count = last ? most : 0; count <= most; ++count) {
      if (most > kAllCounts && count == kAllCounts / 2) count = most - kAllCounts / 2 + 1;
      const ChunkFit fit = fit_at(bubble, j, state.done[j], room, count);
      State next = state;
      take(next, j, fit);
      if (!last) {
        expand(bubble, j + 1, room - fit.time, before, next, out);
      } else if (is_full(bubble, room - fit.time, next)) {
        out.push_back(next);
      }
    }
  }

  bool is_full(std::size_t bubble, Nanoseconds room, const State& state) const {
    for (std::size_t j = 0; j < sharers_.size(); ++j)
      if (fit_at(bubble, j, state.done[j], room, 1).count > 0) return false;
    return true;
  }

  /// The kBeam states with the most work; among equals the one that favours the first job.
  static void keep_best(std::vector<State>& states) {
    std::sort(states.begin(), states.end(),
              [](const State& a, const State& b) { return a.work != b.work ? a.work > b.work : a.done > b.done; });
    const auto same = [](const State& a, const State& b) { return a.done == b.done; };
    states.erase(std::unique(states.begin(), states.end(), same), states.end());
    if (states.size() > kBeam) states.resize(kBeam);
  }

  FillPlan plan_of(const std::vector<State>& path) const {
    FillPlan plan{std::vector<PlannedBubble>(cycle_.size()), Nanoseconds{static_cast<std::int64_t>(path.back().work)}};
    for (std::size_t bubble = 0; bubble < cycle_.size(); ++bubble)
      for (std::size_t j = 0; j < sharers_.size(); ++j) {
        const std::int64_t first = path[bubble].done[j], count = path[bubble + 1].done[j] - first;
        if (count == 0) continue;
        const ChunkFit fit = fit_at(bubble, j, first, Nanoseconds::max(), count);
        plan.bubbles[bubble].runs.push_back(
            {sharers_[j].job->id, sharers_[j].configuration, first, count, fit.time, fit.samples, fit.memory});
      }
    return plan;
  }

  std::vector<Sharer> sharers_;
  const BubbleCycle& cycle_;
  const PlanSettings& settings_;
  Bytes resident_{0};
};

/// Of a configuration: the fastest one's time for the whole job over its own.
double worth(const FillJobInfo& job, int configuration) {
  Nanoseconds fastest = Nanoseconds::max();
  for (const FillConfiguration& other : job.configurations) fastest = std::min(fastest, other.remaining_time(0));
  const Nanoseconds own = job.configurations[static_cast<std::size_t>(configuration)].remaining_time(0);
  return own == Nanoseconds{0} ? 1 : to_seconds(fastest) / to_seconds(own);
}

FillPlan plan_together(const std::vector<Sharer>& sharers, const BubbleCycle& cycle, const PlanSettings& settings) {
  const SharedSearch search(sharers, cycle, settings);
  FillPlan plan = search.in_order();
  Nanoseconds room{0};
  for (const BubbleBudget& bubble : cycle) room += usable(bubble, settings);
  const bool plain = std::all_of(sharers.begin(), sharers.end(), [](const Sharer& s) { return s.worth == 1; });
  if (plain && to_seconds(plan.used()) >= kGoodEnough * to_seconds(room)) return plan;
  return sharers.size() == 1 ? plan : search.best();
}

}  // namespace

FillPlan plan_shared(std::span<const FillJobInfo* const> jobs, const BubbleCycle& cycle, const PlanSettings& settings) {
  std::vector<Sharer> sharers;
  for (const FillJobInfo* job : jobs) {
    const CycleRate rate = best_rate(*job, cycle, settings);
    if (rate.used == Nanoseconds{0} || sharers.size() == kMostSharing) continue;
    sharers.push_back({job, rate.configuration, worth(*job, rate.configuration)});
  }
  FillPlan best{std::vector<PlannedBubble>(cycle.size()), {}};
  if (sharers.empty()) return best;
  if (SharedSearch(sharers, cycle, settings).memory_is_plenty()) return plan_together(sharers, cycle, settings);
  const auto all = (1U << sharers.size()) - 1;
  for (unsigned subset = all; subset > 0; --subset) {
    std::vector<Sharer> chosen;
    for (std::size_t j = 0; j < sharers.size(); ++j)
      if ((subset >> j & 1U) != 0) chosen.push_back(sharers[j]);
    if (!SharedSearch(chosen, cycle, settings).resident_fits()) continue;
    FillPlan plan = plan_together(chosen, cycle, settings);
    if (plan.work > best.work) best = std::move(plan);
  }
  return best;
}

}  // namespace pipefill
