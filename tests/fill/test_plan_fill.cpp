// fill/plan_fill: PipeFill's algorithm against packings worked out by hand; the shared plan against an exhaustive
// search; time and memory of every bubble against the plan's own lists.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "fill/plan_fill.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

FillConfiguration configuration(const std::string& name, const std::vector<int>& chunk_ms, Bytes memory = {1},
                                double samples = 1) {
  FillConfiguration made;
  made.name = name;
  for (const int ms : chunk_ms) {
    const auto same = std::find_if(made.times.begin(), made.times.end(),
                                   [&](const ChunkTime& time) { return time.time() == ms * 1ms; });
    const auto cost_class = static_cast<int>(same - made.times.begin());
    if (same == made.times.end()) made.times.emplace_back(ms * 1ms);
    made.chunks.append({1, cost_class, memory, samples});
  }
  return made;
}

FillJobInfo job(std::int64_t id, std::vector<FillConfiguration> configurations) {
  FillJobInfo made;
  made.id = id;
  made.configurations = std::move(configurations);
  return made;
}

BubbleCycle cycle(const std::vector<int>& lengths_ms, Bytes memory = {100}) {
  BubbleCycle made;
  for (const int ms : lengths_ms)
    made.push_back({static_cast<int>(made.size()), BubbleClass::warm_up, ms * 1ms, memory});
  return made;
}

std::vector<std::vector<std::int64_t>> counts(const FillPlan& plan) {
  std::vector<std::vector<std::int64_t>> made;
  for (const PlannedBubble& bubble : plan.bubbles) {
    made.emplace_back();
    for (const PlannedChunks& run : bubble.runs) made.back().push_back(run.count);
  }
  return made;
}

TEST(PlanPipefill, CutsTheChainGreedilyAndLeavesInnerGaps) {
  const FillJobInfo chain = job(1, {configuration("a", {3, 3, 3, 5, 2, 2, 2})});
  BubbleCycle bubbles = cycle({10, 4, 7, 6});
  bubbles[1].why = BubbleClass::steady;
  // 3 3 3 | left | 5 2 | 2 2
  EXPECT_EQ(counts(plan_pipefill(chain, bubbles, {})), (std::vector<std::vector<std::int64_t>>{{3}, {}, {2}, {2}}));
  // At 0.68: 6.8 4.76 4.08 -> 3 3 | left | 3 | nothing (5 does not fit)
  EXPECT_EQ(counts(plan_pipefill(chain, bubbles, {.fill_fraction = 0.68})),
            (std::vector<std::vector<std::int64_t>>{{2}, {}, {1}, {}}));
}

TEST(PlanPipefill, TheConfigurationWithMostSamplesWinsAndAPinnedOneStays) {
  // One sample takes 4 ms alone, or 3 ms in a batch of two, for which only the first bubble has the memory.
  FillJobInfo chain = job(1, {configuration("batch=1", std::vector<int>(100, 4), {10}, 1),
                              configuration("batch=2", std::vector<int>(100, 6), {20}, 2)});
  BubbleCycle bubbles = cycle({13, 13}, {25});
  EXPECT_EQ(plan_pipefill(chain, bubbles, {}).bubbles[0].runs[0].configuration, 1);  // 8 samples against 6
  bubbles[1].memory = {15};
  EXPECT_EQ(plan_pipefill(chain, bubbles, {}).bubbles[0].runs[0].configuration, 0);  // 6 samples against 4
  chain.pinned = 1;
  EXPECT_EQ(plan_pipefill(chain, bubbles, {}).bubbles[0].runs[0].configuration, 1);
  EXPECT_EQ(plan_pipefill(chain, bubbles, {}).samples(), 4);
}

TEST(BestRate, CountsTheCyclesToTheEnd) {
  FillJobInfo chain = job(1, {configuration("a", std::vector<int>(100, 4))});
  CycleRate rate = best_rate(chain, cycle({13, 9}), {});
  EXPECT_EQ(rate.used, 20ms);
  EXPECT_DOUBLE_EQ(rate.cycles, 20);
  chain.progress.reached(50);
  EXPECT_DOUBLE_EQ(best_rate(chain, cycle({13, 9}), {}).cycles, 10);
  EXPECT_EQ(best_rate(chain, cycle({3, 3}), {}).used, 0ms) << "too short";
  EXPECT_EQ(best_rate(chain, cycle({13, 9}, {0}), {}).used, 0ms) << "too little memory";
  EXPECT_TRUE(std::isinf(best_rate(chain, cycle({13, 9}, {0}), {}).cycles));
}

/// Most chunk time that any plan of these jobs' first configurations reaches: tries every count of every job in every
/// bubble.
class Exhaustive {
 public:
  Exhaustive(std::vector<const FillJobInfo*> jobs, const BubbleCycle& bubbles, Nanoseconds guard)
      : bubbles_(bubbles), guard_(guard) {
    for (const FillJobInfo* each : jobs) {
      const FillConfiguration& chosen = each->configurations[0];
      resident_ += chosen.resident;
      chunks_.emplace_back();
      chosen.chunks.walk(0, [&](const ChunkRun& run, std::int64_t count) {
        chunks_.back().insert(chunks_.back().end(), static_cast<std::size_t>(count), chosen.price(run));
        return true;
      });
    }
    for (const BubbleBudget& bubble : bubbles)
      if (resident_ > bubble.memory) chunks_.clear();
  }

  Nanoseconds best() { return best_from(0, std::vector<std::size_t>(chunks_.size(), 0)); }

 private:
  Nanoseconds best_from(std::size_t bubble, std::vector<std::size_t> done) {
    if (bubble == bubbles_.size()) return 0ns;
    const auto known = memo_.find({bubble, done});
    if (known != memo_.end()) return known->second;
    Nanoseconds best = 0ns;
    auto key = std::pair{bubble, done};
    choose(bubble, 0, 0ns, done, best);
    return memo_[key] = best;
  }
  void choose(std::size_t bubble, std::size_t j, Nanoseconds used, std::vector<std::size_t>& done, Nanoseconds& best) {
    if (j == chunks_.size()) {
      best = std::max(best, used + best_from(bubble + 1, done));
      return;
    }
    const std::size_t before = done[j];
    const Nanoseconds room = bubbles_[bubble].length - guard_;
    for (Nanoseconds total = used; total == used || total <= room;) {
      choose(bubble, j + 1, total, done, best);
      if (done[j] == chunks_[j].size() || chunks_[j][done[j]].memory + resident_ > bubbles_[bubble].memory) break;
      total += chunks_[j][done[j]].time;
      if (total > room) break;
      ++done[j];
    }
    done[j] = before;
  }

  const BubbleCycle& bubbles_;
  Nanoseconds guard_;
  Bytes resident_{0};
  std::vector<std::vector<FillChunk>> chunks_;
  std::map<std::pair<std::size_t, std::vector<std::size_t>>, Nanoseconds> memo_;
};

struct Instance {
  std::vector<FillJobInfo> jobs;
  BubbleCycle bubbles;
  PlanSettings settings;
  std::vector<const FillJobInfo*> pointers() const {
    std::vector<const FillJobInfo*> made;
    for (const FillJobInfo& each : jobs) made.push_back(&each);
    return made;
  }
};

enum class Memory { plenty, scarce };

/// Three jobs, four bubbles of unequal length.
Instance random_instance(std::mt19937& random, Memory memory) {
  const auto between = [&](int low, int high) { return std::uniform_int_distribution<>(low, high)(random); };
  Instance made;
  for (int j = 0; j < 3; ++j) {
    const int shortest = between(2, 12), spread = between(0, 8), largest = memory == Memory::plenty ? 1 : 12;
    FillConfiguration chosen;
    const int chunks = between(3, 14);
    for (int c = 0; c < chunks; ++c) {
      chosen.times.emplace_back(between(shortest, shortest + spread) * 1ms);
      chosen.chunks.append({1, c, {between(1, largest)}, 1});
    }
    chosen.resident = {memory == Memory::plenty ? 0 : between(0, 6)};
    made.jobs.push_back(job(j, {chosen}));
  }
  for (int b = 0; b < 4; ++b)
    made.bubbles.push_back({b,
                            b == 1 ? BubbleClass::steady : BubbleClass::warm_up,
                            between(4, 45) * 1ms,
                            {memory == Memory::plenty ? 100 : between(5, 22)}});
  made.settings.guard = between(0, 2) * 1ms;
  return made;
}

void expect_within_budgets(const FillPlan& plan, const Instance& in) {
  ASSERT_EQ(plan.bubbles.size(), in.bubbles.size());
  std::map<std::int64_t, std::int64_t> done;
  Bytes resident{0};
  for (const PlannedBubble& bubble : plan.bubbles)
    for (const PlannedChunks& run : bubble.runs)
      if (done.emplace(run.job, 0).second)
        resident += in.jobs[static_cast<std::size_t>(run.job)].configurations[0].resident;
  for (std::size_t b = 0; b < plan.bubbles.size(); ++b) {
    Nanoseconds used{0};
    for (const PlannedChunks& run : plan.bubbles[b].runs) {
      const FillConfiguration& chosen = in.jobs[static_cast<std::size_t>(run.job)].configurations[0];
      ASSERT_EQ(run.first, done[run.job]) << "chunks in order, none left out";
      done[run.job] += run.count;
      ASSERT_LE(done[run.job], chosen.chunks.size());
      std::int64_t left = run.count;
      chosen.chunks.walk(run.first, [&](const ChunkRun& chunk, std::int64_t count) {
        for (; count > 0 && left > 0; --count, --left) {
          used += chosen.price(chunk).time;
          EXPECT_LE(chunk.memory + resident, in.bubbles[b].memory);
        }
        return left > 0;
      });
    }
    EXPECT_LE(used, std::max(0ns, in.bubbles[b].length - in.settings.guard));
    EXPECT_EQ(used, plan.bubbles[b].used());
  }
}

TEST(PlanShared, ReachesTheBestPackingWithinFivePercent) {
  std::mt19937 random(11);
  double worst = 1, sum = 0;
  constexpr int kInstances = 1500;
  for (int trial = 0; trial < kInstances; ++trial) {
    const Instance in = random_instance(random, Memory::plenty);
    const FillPlan plan = plan_shared(in.pointers(), in.bubbles, in.settings);
    expect_within_budgets(plan, in);
    const Nanoseconds best = Exhaustive(in.pointers(), in.bubbles, in.settings.guard).best();
    const double share = best == 0ns ? 1 : to_seconds(plan.used()) / to_seconds(best);
    ASSERT_GE(share, 0.95) << "instance " << trial;
    ASSERT_LE(share, 1.0) << "instance " << trial << ": the exhaustive search is not exhaustive";
    worst = std::min(worst, share), sum += share / kInstances;
  }
  RecordProperty("worst", std::to_string(worst));
  RecordProperty("mean", std::to_string(sum));
}

TEST(PlanShared, ReachesTheBestSubsetWhenMemoryIsScarce) {
  std::mt19937 random(12);
  for (int trial = 0; trial < 400; ++trial) {
    const Instance in = random_instance(random, Memory::scarce);
    const FillPlan plan = plan_shared(in.pointers(), in.bubbles, in.settings);
    expect_within_budgets(plan, in);
    Nanoseconds best{0};
    for (unsigned subset = 1; subset < 8; ++subset) {
      std::vector<const FillJobInfo*> chosen;
      for (std::size_t j = 0; j < 3; ++j)
        if ((subset >> j & 1U) != 0) chosen.push_back(&in.jobs[j]);
      best = std::max(best, Exhaustive(chosen, in.bubbles, in.settings.guard).best());
    }
    ASSERT_GE(to_seconds(plan.used()), 0.95 * to_seconds(best)) << "instance " << trial;
  }
}

TEST(PlanShared, LeftoversOfOneJobServeAnotherAlsoInInnerGaps) {
  const FillJobInfo large = job(0, {configuration("a", std::vector<int>(100, 9))});
  const FillJobInfo small = job(1, {configuration("a", std::vector<int>(100, 2))});
  BubbleCycle bubbles = cycle({20, 4});
  bubbles[1].why = BubbleClass::steady;
  const std::vector<const FillJobInfo*> both{&large, &small};
  const FillPlan plan = plan_shared(both, bubbles, {});
  EXPECT_EQ(counts(plan), (std::vector<std::vector<std::int64_t>>{{2, 1}, {2}}));
  EXPECT_EQ(plan.used(), 24ms);
  EXPECT_EQ(plan_pipefill(large, bubbles, {}).used(), 18ms);
}

TEST(PlanShared, ASlowConfigurationEarnsNothingByTakingLonger) {
  // Job 0 must go on in a configuration that takes twice the time; job 1 has room for as much, at full worth.
  FillJobInfo slow = job(
      0, {configuration("fast", std::vector<int>(10, 3), {50}), configuration("slow", std::vector<int>(10, 6), {1})});
  slow.pinned = 1;
  const FillJobInfo other = job(1, {configuration("a", std::vector<int>(2, 6))});
  const std::vector<const FillJobInfo*> both{&slow, &other};
  const FillPlan plan = plan_shared(both, cycle({12}), {});
  EXPECT_EQ(plan.work, 12ms);
  ASSERT_EQ(plan.bubbles[0].runs.size(), 1U);
  EXPECT_EQ(plan.bubbles[0].runs[0].job, 1);
}

TEST(PlanShared, AMillionSmallChunksInManyBubbles) {
  std::vector<FillJobInfo> jobs;
  for (int j = 0; j < 4; ++j) {
    FillConfiguration chosen;
    chosen.times = {ChunkTime((100 + 37 * j) * 1us), ChunkTime((900 + 110 * j) * 1us)};
    for (int batch = 0; batch < 100'000; ++batch) {
      chosen.chunks.append({9, 0, {1}, 0});
      chosen.chunks.append({1, 1, {1}, 1});
    }
    jobs.push_back(job(j, {chosen}));
  }
  const Instance in{jobs, cycle({14, 1, 1, 2, 1, 1, 30, 9}), {.guard = 50us}};
  const FillPlan plan = plan_shared(in.pointers(), in.bubbles, in.settings);
  expect_within_budgets(plan, in);
  EXPECT_GT(plan.used(), 57ms);  // of 58.6
}

}  // namespace
}  // namespace pipefill
