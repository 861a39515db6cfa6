// Which fill job goes to which stage when an executor frees up: every queued job gets a score from the job and the
// executors' state, the best goes there (PipeFill, arXiv 2410.07192, as PAPER.md tells it). A policy is a set of
// weights over a few terms, each between 0 and 1, so that a user's own is one more row. Every decision says why.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fill/plan_fill.hpp"

namespace pipefill {

/// fifo: longest waiting. sjf: shortest processing time. makespan: the last executor ends soonest. fair: the owner who
/// had least. weighted: the user's weights. deadline: earliest deadline first; jobs without one by `below`.
enum class FillPolicy { fifo, sjf, makespan, fair, weighted, deadline };
const char* policy_name(FillPolicy policy);

/// What a job has in its favour, each 0..1 among those queued, and what each counts.
struct ScoreWeights {
  double waiting = 0;    ///< time in the queue / longest time in the queue
  double shortness = 0;  ///< shortest processing time of all jobs / this job's (PipeFill: 1 / the smallest over
                         ///< executors; here those with room)
  double makespan = 0;   ///< end of the last executor now / with this job placed here (PipeFill: minus the latter)
  double fairness = 0;   ///< 1 - the owner's share of the fill time so far
};

struct PolicySettings {
  FillPolicy policy = FillPolicy::sjf;
  FillPolicy below = FillPolicy::sjf;  ///< of jobs without deadline, under policy deadline
  ScoreWeights weights{};              ///< of policy weighted
  /// Ageing, for all policies: having waited so long counts 1, as much as a priority of 1 and as any weight of 1: a job
  /// that waits is never overtaken for ever. Under `deadline`, a job without one gets it so long after its arrival.
  Nanoseconds ageing{600'000'000'000};
  /// A job is split only if that brings its end to this share of what one executor would take, or less.
  double split_gain = 0.9;
  /// A job joins those that run on an executor only if it finds room there for this share of the cycle, or for all
  /// that is left of it.
  double least_share = 0.1;
  Nanoseconds shard_start{2'000'000'000};  ///< what each shard costs before its first chunk (loading a model, ...)
};

/// One stage of one replica, with its fill worker.
struct FillExecutor {
  int stage = 0;
  int replica = 0;
  BubbleCycle cycle;        ///< as the bubble model sells it now
  Nanoseconds step_time{};  ///< of the main job: how long one cycle takes
  Nanoseconds busy{};       ///< until its present jobs are finished; zero for none
  int room = 1;             ///< jobs it takes now; 0 when it is fully taken. More than 1: they share the cycle
  std::vector<const FillJobInfo*> sharing{};  ///< run there, first claim first: others get what they leave over
};

struct FillDecision {
  std::int64_t job = 0;   ///< FillJobInfo::id
  int executor = 0;       ///< index
  int configuration = 0;  ///< the best one on this executor; all shards of a job get the same
  std::int64_t shard = 0, shards = 1;
  double score = 0;
  Nanoseconds expected{};  ///< processing time here, wall time of the main job
  std::string reason;      ///< one line for people
};

/// One decision for every executor with room, as long as there are jobs that fit (chunk time and memory, best_rate);
/// jobs come from `queue`, never twice except as shards. `owner_time`: fill time every owner had so far; what is
/// assigned here is added as the call goes on. `now` is on the clock of the arrivals and deadlines. Same input, same
/// decisions: ties go to the earlier arrival, then to the smaller id. Takes about (jobs x executors) best_rate.
std::vector<FillDecision> assign_jobs(const std::vector<const FillJobInfo*>& queue, std::vector<FillExecutor> executors,
                                      const std::map<std::string, Nanoseconds>& owner_time, const PlanSettings& plan,
                                      const PolicySettings& settings, Nanoseconds now);

}  // namespace pipefill
