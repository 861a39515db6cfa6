// Question: how long does the scheduler think? Promised: 64 stages x 1000 queued jobs in under 1 s; a queue of 10,000
// jobs is taken. Prints the time to assign jobs to all stages (every policy), then to plan a shared cycle on each
// stage. Jobs have two configurations of up to 10^5 chunks in three cost classes; cycles are those of 1F1B with 16
// microbatches: long bubbles at both ends, short gaps between.
//
//   build/release/tests/bench/bench_fill_planning            about ten seconds, one core
// On a virtual machine with 2 cores, kept busy by other work (load 4): 1000 jobs, whatever the policy: 0.28 to 0.31 s
// to assign three jobs to each of 64 stages, 0.14 to 0.17 s to plan their cycles, which are used to 99 %; 4 ms to find
// one job when one executor frees up. 10,000 jobs: 4.5 to 5.3 s, 0.1 s, 47 ms.
#include <fmt/format.h>

#include <random>

#include "bench_support.hpp"
#include "fill/policy.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

FillJobInfo random_job(std::int64_t id, std::mt19937& random) {
  FillJobInfo job;
  job.id = id;
  job.name = fmt::format("job-{}", id);
  job.owner = fmt::format("owner-{}", random() % 20);
  job.arrival = Nanoseconds{1s} * static_cast<std::int64_t>(random() % 3600);
  if (random() % 4 == 0) job.deadline = job.arrival + Nanoseconds{1s} * static_cast<std::int64_t>(random() % 7200);
  job.most_shards = random() % 2 == 0 ? 16 : 1;
  const auto batches = static_cast<std::int64_t>(100 + random() % 10'000);
  for (const int batch : {1, 4}) {
    FillConfiguration configuration;
    configuration.name = fmt::format("batch={}", batch);
    configuration.times = {ChunkTime(batch * 100us), ChunkTime(batch * Nanoseconds{200us + random() % 800 * 1us}),
                           ChunkTime(batch * 400us)};
    const Bytes memory{static_cast<std::int64_t>(random() % 100) * batch};
    for (std::int64_t i = 0; i < batches / batch; ++i) {
      configuration.chunks.append({1, 0, memory, 0});
      configuration.chunks.append({8, 1, memory, 0});
      configuration.chunks.append({1, 2, memory, 1.0 * batch});
    }
    job.configurations.push_back(std::move(configuration));
  }
  return job;
}

FillExecutor stage_of_1f1b(int stage, int stages) {
  FillExecutor made;
  made.stage = stage;
  made.step_time = 400ms;
  made.room = 3;
  made.cycle.push_back({0, BubbleClass::warm_up, Nanoseconds{4ms} * (stage + 1), {200}});
  for (int gap = 0; gap < 14; ++gap) made.cycle.push_back({2 + 4 * gap, BubbleClass::steady, 900us, {150}});
  made.cycle.push_back({70, BubbleClass::cool_down, Nanoseconds{4ms} * (stages - stage), {300}});
  return made;
}

}  // namespace
}  // namespace pipefill

int main() {
  using namespace pipefill;
  constexpr int kStages = 64;
  std::mt19937 random(1);
  std::vector<FillJobInfo> jobs;
  for (int j = 0; j < 10'000; ++j) jobs.push_back(random_job(j, random));
  std::vector<FillExecutor> executors;
  for (int stage = 0; stage < kStages; ++stage) executors.push_back(stage_of_1f1b(stage, kStages));
  const PlanSettings plan{.guard = std::chrono::microseconds(50)};

  fmt::print("{:>8} {:>10} {:>12} {:>12} {:>12} {:>8} {:>14}\n", "jobs", "policy", "assign", "plan cycles", "decisions",
             "used", "one frees up");
  for (const std::size_t queued : {std::size_t{1000}, std::size_t{10'000}}) {
    std::vector<const FillJobInfo*> queue;
    for (std::size_t j = 0; j < queued; ++j) queue.push_back(&jobs[j]);
    for (const FillPolicy which : {FillPolicy::fifo, FillPolicy::sjf, FillPolicy::makespan, FillPolicy::fair,
                                   FillPolicy::weighted, FillPolicy::deadline}) {
      const PolicySettings settings{.policy = which, .weights = {.waiting = 1, .shortness = 1}};
      const double start = bench::seconds(CLOCK_THREAD_CPUTIME_ID);
      const auto decisions = assign_jobs(queue, executors, {}, plan, settings, std::chrono::hours(1));
      const double assigned = bench::seconds(CLOCK_THREAD_CPUTIME_ID);
      double used = 0, room = 0;
      for (int stage = 0; stage < kStages; ++stage) {
        std::vector<const FillJobInfo*> here;
        for (const FillDecision& decision : decisions)
          if (decision.executor == stage) here.push_back(&jobs[static_cast<std::size_t>(decision.job)]);
        const BubbleCycle& cycle = executors[static_cast<std::size_t>(stage)].cycle;
        used += to_seconds(plan_shared(here, cycle, plan).used());
        for (const BubbleBudget& bubble : cycle) room += to_seconds(usable(bubble, plan));
      }
      const double planned = bench::seconds(CLOCK_THREAD_CPUTIME_ID);
      std::vector<FillExecutor> busy = executors;
      for (FillExecutor& executor : busy) executor.room = 0, executor.busy = std::chrono::minutes(10);
      busy.front().room = 1;
      const auto one = assign_jobs(queue, busy, {}, plan, settings, std::chrono::hours(1));
      const double freed = bench::seconds(CLOCK_THREAD_CPUTIME_ID);
      fmt::print("{:>8} {:>10} {:>9.0f} ms {:>9.0f} ms {:>12} {:>6.1f} % {:>11.1f} ms\n", queued, policy_name(which),
                 1e3 * (assigned - start), 1e3 * (planned - assigned), decisions.size(), 100 * used / room,
                 1e3 * (freed - planned) / static_cast<double>(one.size()));
    }
  }
}
