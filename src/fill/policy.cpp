#include "fill/policy.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <tuple>

#include "base/text.hpp"

namespace pipefill {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kLongest = 1e8;  // seconds, three years: longer jobs are all the same

ScoreWeights weights_of(FillPolicy policy, const PolicySettings& settings) {
  switch (policy) {
    case FillPolicy::fifo:
      return {.waiting = 1};
    case FillPolicy::sjf:
      return {.shortness = 1};
    case FillPolicy::makespan:
      return {.makespan = 1};
    case FillPolicy::fair:
      return {.fairness = 1};
    case FillPolicy::weighted:
      return settings.weights;
    case FillPolicy::deadline:
      return weights_of(settings.below == FillPolicy::deadline ? FillPolicy::sjf : settings.below, settings);
  }
  return {};
}

/// How one job would do on one executor.
struct Outlook {
  double seconds = kNever;  ///< to the end, wall time of the main job
  int configuration = 0;
  double work = 0;  ///< seconds of fill time to the end
};

/// A job's standing for one executor; the larger one wins.
struct Standing {
  std::optional<Nanoseconds> deadline;  ///< real or implied by ageing
  double score = -kNever;
};

class Assignment {
 public:
  Assignment(const std::vector<const FillJobInfo*>& queue, std::vector<FillExecutor> executors,
             const std::map<std::string, Nanoseconds>& owner_time, const PlanSettings& plan,
             const PolicySettings& settings, Nanoseconds now)
      : queue_(queue),
        executors_(std::move(executors)),
        plan_(plan),
        settings_(settings),
        now_(now),
        weights_(weights_of(settings.policy, settings)),
        waiting_(queue.size(), true),
        outlooks_(executors_.size(), std::vector<Outlook>(queue.size())),
        whole_cycle_(executors_.size(), Nanoseconds{0}),
        shared_(executors_.size(), false) {
    for (const auto& [owner, time] : owner_time) owner_seconds_[owner] = to_seconds(time);
    for (const FillJobInfo* job : queue) longest_wait_ = std::max(longest_wait_, to_seconds(now - job->arrival));
    for (std::size_t e = 0; e < executors_.size(); ++e) {
      for (const BubbleBudget& bubble : executors_[e].cycle) whole_cycle_[e] += usable(bubble, plan_);
      for (const FillJobInfo* job : executors_[e].sharing)
        if (executors_[e].room > 0) leave_over(e, *job);
      look(e);
    }
  }

  std::vector<FillDecision> operator()() {
    // Whoever has most room has fewest jobs: one for everybody before anybody gets a second one.
    int most = 0;
    for (const FillExecutor& executor : executors_) most = std::max(most, executor.room);
    for (int round = 0; round < most; ++round)
      for (std::size_t e = 0; e < executors_.size(); ++e)
        if (executors_[e].room >= most - round) place_best(e);
    return std::move(decisions_);
  }

 private:
  void look(std::size_t e) {
    if (executors_[e].room == 0) return;
    for (std::size_t j = 0; j < queue_.size(); ++j) {
      if (!waiting_[j]) continue;
      const CycleRate rate = best_rate(*queue_[j], executors_[e].cycle, plan_);
      const bool too_little =
          shared_[e] && rate.cycles > 1 && to_seconds(rate.used) < settings_.least_share * to_seconds(whole_cycle_[e]);
      if (rate.used == Nanoseconds{0} || too_little) {
        outlooks_[e][j] = {};
        continue;
      }
      outlooks_[e][j] = {std::min(kLongest, rate.cycles * to_seconds(executors_[e].step_time)), rate.configuration,
                         rate.cycles * to_seconds(rate.used)};
    }
  }

  Standing standing(std::size_t e, std::size_t j) const {
    const FillJobInfo& job = *queue_[j];
    const double here = outlooks_[e][j].seconds;
    const double waited = to_seconds(now_ - job.arrival), ageing = to_seconds(settings_.ageing);
    Standing made;
    if (settings_.policy == FillPolicy::deadline) {
      made.deadline = job.deadline;
      if (!job.deadline && waited > ageing) made.deadline = job.arrival + settings_.ageing;
    }
    made.score = waited / ageing + job.priority;
    if (weights_.waiting != 0 && longest_wait_ > 0) made.score += weights_.waiting * waited / longest_wait_;
    if (weights_.shortness != 0) made.score += weights_.shortness * shortest_ / std::max(shortest_of_job_[j], 1e-9);
    if (weights_.makespan != 0)
      made.score += weights_.makespan * last_end_ / std::max(last_end_, to_seconds(executors_[e].busy) + here);
    if (weights_.fairness != 0) made.score += weights_.fairness * (1 - owner_share(job.owner));
    return made;
  }

  double owner_share(const std::string& owner) const {
    double all = 0, own = 0;
    for (const auto& [name, seconds] : owner_seconds_) {
      all += seconds;
      if (name == owner) own = seconds;
    }
    return all > 0 ? own / all : 0;
  }

  bool better(std::size_t j, const Standing& mine, std::size_t other, const Standing& others) const {
    const auto tier = [](const Standing& s) { return s.deadline.value_or(Nanoseconds::max()); };
    if (tier(mine) != tier(others)) return tier(mine) < tier(others);
    if (mine.score != others.score) return mine.score > others.score;
    return std::tie(queue_[j]->arrival, queue_[j]->id) < std::tie(queue_[other]->arrival, queue_[other]->id);
  }

  /// Values that all jobs are compared with: they change with every placement.
  void take_stock() {
    shortest_ = kNever, last_end_ = 1e-9;
    shortest_of_job_.assign(queue_.size(), kNever);
    for (std::size_t e = 0; e < executors_.size(); ++e) {
      last_end_ = std::max(last_end_, to_seconds(executors_[e].busy));
      for (std::size_t j = 0; j < queue_.size(); ++j)
        if (waiting_[j]) shortest_of_job_[j] = std::min(shortest_of_job_[j], outlooks_[e][j].seconds);
    }
    for (const double seconds : shortest_of_job_) shortest_ = std::min(shortest_, seconds);
  }

  void place_best(std::size_t e) {
    if (executors_[e].room == 0) return;
    take_stock();
    std::optional<std::size_t> best;
    Standing best_standing;
    int fitting = 0, unfit = 0;
    for (std::size_t j = 0; j < queue_.size(); ++j) {
      if (!waiting_[j]) continue;
      if (outlooks_[e][j].seconds == kNever) {
        ++unfit;
        continue;
      }
      ++fitting;
      const Standing mine = standing(e, j);
      if (!best || better(j, mine, *best, best_standing)) best = j, best_standing = mine;
    }
    if (!best) return;
    const std::string reason = why(e, *best, best_standing, fitting, unfit);
    place(*best, split(e, *best, fitting), best_standing.score, reason);
  }

  /// Executors for the shards of job j: e alone, or e and those that nobody else waits for, if j ends sooner so.
  std::vector<std::size_t> split(std::size_t e, std::size_t j, int fitting) const {
    const FillJobInfo& job = *queue_[j];
    std::vector<std::size_t> shards{e};
    if (job.most_shards <= 1 || job.pinned) return shards;
    std::vector<std::size_t> others;
    const int configuration = outlooks_[e][j].configuration;
    for (std::size_t other = 0; other < executors_.size(); ++other) {
      const Outlook& there = outlooks_[other][j];
      if (other != e && executors_[other].room > 0 && there.seconds != kNever && there.configuration == configuration)
        others.push_back(other);
    }
    std::stable_sort(others.begin(), others.end(),
                     [&](std::size_t a, std::size_t b) { return outlooks_[a][j].seconds < outlooks_[b][j].seconds; });
    const auto spare = std::max<std::ptrdiff_t>(0, std::ssize(others) - (fitting - 1));
    double slowest = outlooks_[e][j].seconds, best_end = settings_.split_gain * slowest;
    const auto most =
        std::min<std::size_t>(static_cast<std::size_t>(spare), static_cast<std::size_t>(job.most_shards) - 1);
    std::size_t best_count = 0;
    for (std::size_t count = 1; count <= most; ++count) {
      slowest = std::max(slowest, outlooks_[others[count - 1]][j].seconds);
      const double end = slowest / static_cast<double>(count + 1) + to_seconds(settings_.shard_start);
      if (end < best_end) best_end = end, best_count = count;
    }
    shards.insert(shards.end(), others.begin(), others.begin() + static_cast<std::ptrdiff_t>(best_count));
    return shards;
  }

  void place(std::size_t j, const std::vector<std::size_t>& shards, double score, const std::string& reason) {
    const auto count = static_cast<double>(shards.size());
    for (std::size_t shard = 0; shard < shards.size(); ++shard) {
      const std::size_t e = shards[shard];
      const Outlook& outlook = outlooks_[e][j];
      const Nanoseconds expected = from_seconds(outlook.seconds / count);
      std::string text = reason;
      if (shards.size() > 1)
        text += fmt::format("; part {} of {}: alone it would take {}", shard + 1, shards.size(),
                            format_duration(from_seconds(outlooks_[shards[0]][j].seconds)));
      decisions_.push_back({queue_[j]->id, static_cast<int>(e), outlook.configuration, static_cast<std::int64_t>(shard),
                            static_cast<std::int64_t>(shards.size()), score, expected, std::move(text)});
      owner_seconds_[queue_[j]->owner] += outlook.work / count;
    }
    waiting_[j] = false;
    for (const std::size_t e : shards) {
      executors_[e].busy += from_seconds(outlooks_[e][j].seconds / count);
      --executors_[e].room;
      if (executors_[e].room > 0) leave_over(e, *queue_[j]), look(e);
    }
  }

  /// What the job leaves of the cycle is what the next one finds.
  void leave_over(std::size_t e, const FillJobInfo& job) {
    const FillJobInfo* jobs[] = {&job};
    BubbleCycle& cycle = executors_[e].cycle;
    const FillPlan plan = plan_shared(jobs, cycle, plan_);
    const int configuration = job.pinned.value_or(best_rate(job, cycle, plan_).configuration);
    const Bytes resident = job.configurations[static_cast<std::size_t>(configuration)].resident;
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      cycle[i].length -= plan.bubbles[i].used();
      cycle[i].memory -= resident;
    }
    shared_[e] = true;
  }

  std::string why(std::size_t e, std::size_t j, const Standing& standing, int fitting, int unfit) const {
    const FillJobInfo& job = *queue_[j];
    std::string text = fmt::format("{}: ", policy_name(settings_.policy));
    if (standing.deadline) {
      const Nanoseconds left = *standing.deadline - now_;
      text += left >= Nanoseconds{0} ? fmt::format("earliest deadline, in {}", format_duration(left))
                                     : fmt::format("earliest deadline, {} ago", format_duration(-left));
      if (!job.deadline) text += " (implied by its waiting)";
    } else {
      text += fmt::format("score {:.3f}", standing.score);
    }
    text +=
        fmt::format(", best of {} that fit stage {} replica {}", fitting, executors_[e].stage, executors_[e].replica);
    if (unfit > 0) text += fmt::format(" ({} do not)", unfit);
    text += fmt::format("; {} of work here", format_duration(from_seconds(outlooks_[e][j].seconds)));
    text += fmt::format("; waited {}", format_duration(now_ - job.arrival));
    if (job.priority != 0) text += fmt::format("; priority {:g}", job.priority);
    return text;
  }

  const std::vector<const FillJobInfo*>& queue_;
  std::vector<FillExecutor> executors_;
  const PlanSettings& plan_;
  const PolicySettings& settings_;
  Nanoseconds now_;
  ScoreWeights weights_;
  std::map<std::string, double> owner_seconds_;
  std::vector<char> waiting_;                   ///< by job: not yet placed
  std::vector<std::vector<Outlook>> outlooks_;  ///< by executor, by job
  std::vector<Nanoseconds> whole_cycle_;        ///< by executor: usable time, whoever uses it
  std::vector<char> shared_;                    ///< by executor: has a job
  std::vector<double> shortest_of_job_;         ///< seconds, smallest over the executors
  double shortest_ = kNever;                    ///< of all jobs
  double last_end_ = 0;                         ///< seconds until the last executor is free
  double longest_wait_ = 0;
  std::vector<FillDecision> decisions_;
};

}  // namespace

const char* policy_name(FillPolicy policy) {
  switch (policy) {
    case FillPolicy::fifo:
      return "fifo";
    case FillPolicy::sjf:
      return "sjf";
    case FillPolicy::makespan:
      return "makespan";
    case FillPolicy::fair:
      return "fair";
    case FillPolicy::weighted:
      return "weighted";
    case FillPolicy::deadline:
      return "deadline";
  }
  return "";
}

std::vector<FillDecision> assign_jobs(const std::vector<const FillJobInfo*>& queue, std::vector<FillExecutor> executors,
                                      const std::map<std::string, Nanoseconds>& owner_time, const PlanSettings& plan,
                                      const PolicySettings& settings, Nanoseconds now) {
  return Assignment(queue, std::move(executors), owner_time, plan, settings, now)();
}

}  // namespace pipefill
