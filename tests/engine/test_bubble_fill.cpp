// engine/bubble_fill: what a rank records of its worker's chunks, and when it lets the worker run at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "granting.hpp"

namespace pipefill::testing {
namespace {

/// A fill or overrun event as a test states it.
struct Part {
  EventKind kind;
  int slot;
  std::int64_t start, end;
  int cost_class = -1;
  friend bool operator==(const Part&, const Part&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Part& p) {
    return out << event_kind_name(p.kind) << " slot " << p.slot << " " << p.start << ".." << p.end << " class "
               << p.cost_class;
  }
};

/// The test is the worker: it says what chunks it ran and when.
class Recording : public FillTest {
 protected:
  Recording() : crew_(worker(), make_null_log()), worker_(crew_.members()[0]->worker->channel().share()) {
    crew_.assign({.number = 7, .directory = job_directory("a", "chunks: 100"), .configuration = ""});
  }

  BubbleFillSettings settings() const {
    BubbleFillSettings s;
    s.audit = {.first_step = 1, .block = 10, .audit = 0};
    return s;
  }
  void step(BubbleFill& fill, std::int64_t number, std::initializer_list<std::pair<std::int64_t, std::int64_t>> bubbles,
            std::initializer_list<ChunkRecord> chunks) {
    fill.begin_step(number);
    int position = 0;
    for (const auto& [begin, arrival] : bubbles) {
      fill.record(position, Nanoseconds{begin}, Nanoseconds{arrival}, kMemory);
      position += 2;
    }
    for (const ChunkRecord& chunk : chunks) worker_.record(chunk);
    fill.end_step(Nanoseconds{1000});
  }
  ChunkRecord chunk(std::int64_t number, std::int64_t start, std::int64_t end, std::int64_t stopped = 0,
                    ChunkOutcome outcome = ChunkOutcome::finished) {
    ChunkRecord record;
    record.serial = crew_.members()[0]->serial;
    record.chunk = number, record.start_ns = start, record.end_ns = end, record.stopped_ns = stopped;
    record.cost_class = 3, record.outcome = outcome;
    return record;
  }
  std::vector<Part> parts() {
    std::vector<Part> found;
    for (const EventRow& row : recorded().event_rows)
      if (is_fill_work(static_cast<EventKind>(row.kind)))
        found.push_back({static_cast<EventKind>(row.kind), row.slot, row.start_ns, row.end_ns, row.cost_class});
    return found;
  }

  FillCrew crew_;
  WorkerChannel worker_;  ///< the worker's side
};

constexpr EventKind kFill = EventKind::fill, kOverrun = EventKind::overrun;

TEST_F(Recording, AChunkIsSplitAtTheEndsOfItsBubbles) {
  BubbleFill fill(settings(), kProgram, crew_, trace());
  step(fill, 1, {{100, 200}, {300, 400}}, {chunk(0, 110, 150), chunk(1, 150, 350), chunk(2, 360, 450)});
  EXPECT_EQ(parts(), (std::vector<Part>{{kFill, 0, 110, 150, 3},
                                        {kFill, 0, 150, 200},
                                        {kOverrun, -1, 200, 300},
                                        {kFill, 2, 300, 350, 3},
                                        {kFill, 2, 360, 400},
                                        {kOverrun, -1, 400, 450, 3}}));
  EXPECT_EQ(fill.figures().bubbles, Nanoseconds{200});
  EXPECT_EQ(fill.figures().chunks, Nanoseconds{40 + 50 + 50 + 40});
}

TEST_F(Recording, TimeStoppedHardIsNoOverrun) {
  BubbleFill fill(settings(), kProgram, crew_, trace());
  // Stopped 20 after the arrival, let go on 80 later.
  step(fill, 1, {{100, 200}, {300, 400}}, {chunk(1, 150, 350, 80)});
  std::int64_t inside = 0, overrun = 0;
  for (const Part& part : parts()) (part.kind == kFill ? inside : overrun) += part.end - part.start;
  EXPECT_EQ(inside, 50 + 50);
  EXPECT_EQ(overrun, 20);
}

TEST_F(Recording, AChunkThatBeganInTheLastStepCountsInBoth) {
  BubbleFill fill(settings(), kProgram, crew_, trace());
  step(fill, 1, {{100, 200}, {300, 400}}, {});
  step(fill, 2, {{1100, 1200}, {1300, 1400}}, {chunk(5, 380, 1150, 700)});
  EXPECT_EQ(parts(), (std::vector<Part>{{kFill, 2, 380, 400}, {kOverrun, -1, 400, 400}, {kFill, 0, 1100, 1150, 3}}));
}

TEST_F(Recording, AnInterruptedChunkFinishesNoCostClass) {
  BubbleFill fill(settings(), kProgram, crew_, trace());
  step(fill, 1, {{100, 200}, {300, 400}}, {chunk(0, 110, 150, 0, ChunkOutcome::interrupted)});
  EXPECT_EQ(parts(), (std::vector<Part>{{kFill, 0, 110, 150, -1}}));
}

TEST_F(Recording, TheProcessorTimeOfAProgramIsThatOfItsPartsInBubbles) {
  BubbleFill fill(settings(), kProgram, crew_, trace());
  // 200 long, half of it in bubbles, and busy for a quarter of it.
  ChunkRecord program = chunk(0, 150, 350, 0, ChunkOutcome::interrupted);
  program.program_cpu_ns = 50;
  step(fill, 1, {{100, 200}, {300, 400}}, {program});
  std::int64_t busy = 0;
  for (const EventRow& row : recorded().event_rows) busy += std::max<std::int64_t>(row.granted_ns, 0);
  EXPECT_EQ(busy, 12 + 12);
}

TEST_F(Recording, AChunkOfAJobThatWasTakenAwayIsStillThatJobs) {
  BubbleFill fill(settings(), kProgram, crew_, trace());
  ChunkRecord late = chunk(9, 110, 150);
  crew_.release(7);
  crew_.assign({.number = 8, .directory = job_directory("b", "chunks: 100"), .configuration = ""});
  step(fill, 1, {{100, 200}, {300, 400}}, {late, chunk(0, 310, 350)});
  EXPECT_EQ(crew_.find(8)->fill_time, Nanoseconds{40});
  EXPECT_EQ(crew_.find(8)->lengths.size(), 1);
  std::vector<std::int32_t> jobs;
  for (const EventRow& row : recorded().event_rows) jobs.push_back(row.job);
  EXPECT_EQ(jobs, (std::vector<std::int32_t>{7, 8}));
}

TEST_F(Recording, EventsSayWhichJobAndStep) {
  BubbleFill fill(settings(), kProgram, crew_, trace());
  step(fill, 4, {{100, 200}, {300, 400}}, {chunk(9, 110, 150)});
  const CollectingSink sink = recorded();
  ASSERT_EQ(sink.event_rows.size(), 1U);
  EXPECT_EQ(sink.event_rows[0].job, 7);
  EXPECT_EQ(sink.event_rows[0].step, 4);
  EXPECT_EQ(sink.event_rows[0].fill_chunk, 9);
}

TEST_F(Recording, OnlyFilledStepsCountInTheFigures) {
  BubbleFillSettings s = settings();
  s.audit = {.first_step = 2, .block = 1, .audit = 0.5};  // step 1 measures; from then on every second one is filled
  BubbleFill fill(s, kProgram, crew_, trace());
  for (int number = 1; number <= 5; ++number) step(fill, number, {{100, 200}, {300, 400}}, {});
  int filled = 0;
  for (int number = 2; number <= 5; ++number) filled += fill.audit(number).mode == StepMode::filled ? 1 : 0;
  EXPECT_EQ(filled, 2);
  EXPECT_EQ(fill.figures().bubbles, Nanoseconds{200} * filled);
}

TEST_F(Recording, TheGuardRisesWithTheSlowdownAndTheCycleIsSoldLess) {
  BubbleFillSettings s = settings();
  s.audit = {.first_step = 2, .block = 1, .audit = 0.5};
  s.guard.start = Nanoseconds{1000};
  BubbleFill fill(s, kProgram, crew_, trace());
  const Nanoseconds before = usable(BubbleBudget{.length = 1ms}, fill.plan_settings());
  for (int number = 1; number <= 30; ++number) {
    fill.begin_step(number);
    fill.record(0, Nanoseconds{0}, 1ms, kMemory);
    fill.record(2, 2ms, 3ms, kMemory);
    fill.end_step(fill.step_is_filled() ? 11ms : 10ms);  // 10 % slower, 1 % is promised
  }
  EXPECT_GT(fill.figures().slowdown.pairs, 10);
  EXPECT_NEAR(fill.figures().slowdown.median, 0.1, 1e-9);
  EXPECT_GT(fill.figures().guard, 100us);
  EXPECT_LE(fill.figures().guard, 2ms) << "twice the longest bubble: nothing is sold then";
  EXPECT_LT(usable(BubbleBudget{.length = 1ms}, fill.plan_settings()), before - 100us);
}

TEST_F(Recording, ASuspendedGuardIsToldAndOnlyTheGuardedStrategyHasOne) {
  for (const FillStrategy strategy : {FillStrategy::adaptive, FillStrategy::naive, FillStrategy::pipefill}) {
    BubbleFillSettings s = settings();
    s.audit = {.first_step = 2, .block = 1, .audit = 0.5};
    s.strategy.strategy = strategy;
    BubbleFill fill(s, kProgram, crew_, trace());
    int told = 0;
    for (int number = 1; number <= 60; ++number) {
      fill.begin_step(number);
      fill.record(0, Nanoseconds{0}, 1ms, kMemory);
      fill.record(2, 2ms, 3ms, kMemory);
      told += fill.end_step(fill.step_is_filled() ? 20ms : 10ms) == GuardMove::suspended ? 1 : 0;
    }
    EXPECT_EQ(told, strategy == FillStrategy::adaptive ? 1 : 0) << strategy_name(strategy);
    if (told == 1) {
      EXPECT_NEAR(fill.cause().slowdown, 1, 1e-9);
    }
  }
}

TEST_F(Recording, AGuardThatHoldsStays) {
  BubbleFillSettings s = settings();
  s.audit = {.first_step = 2, .block = 1, .audit = 0.5};
  BubbleFill fill(s, kProgram, crew_, trace());
  for (int number = 1; number <= 30; ++number) {
    fill.begin_step(number);
    fill.record(0, Nanoseconds{0}, 1ms, kMemory);
    fill.record(2, 2ms, 3ms, kMemory);
    fill.end_step(10ms);
  }
  EXPECT_EQ(fill.figures().guard, s.guard.start);
}

TEST_F(Granting, NothingRunsBeforeBubblesAreMeasuredThenInThemOnly) {
  BubbleFill fill(settings(), kProgram, crew_, trace());
  EXPECT_EQ(step(fill, 1), Nanoseconds{0});
  EXPECT_EQ(done(), 0);
  Nanoseconds sold{0};
  for (int number = 2; number <= 6; ++number) sold += step(fill, number);
  EXPECT_GT(sold, 50ms) << "of 100 ms of bubbles";
  const std::int64_t chunks = done();
  EXPECT_GT(chunks, 20);
  std::this_thread::sleep_for(30ms);
  EXPECT_LE(done(), chunks + 1) << "it ran on between the steps";
  int fills = 0;
  for (const EventRow& row : recorded().event_rows) {
    if (static_cast<EventKind>(row.kind) != EventKind::fill) continue;
    ++fills;
    EXPECT_TRUE(row.slot == 0 || row.slot == 2) << row.slot;
  }
  EXPECT_GE(fills, chunks - 1);
}

/// How often a rank looks for its input in a bubble of 40 ms, while chunks of 0.2 ms run.
class Listening : public Granting {
 protected:
  Listening() : crew_(listening_worker(), make_null_log()) {
    crew_.assign({.number = 9, .directory = job_directory("job-9", "chunks: 100000, chunk_us: 200")});
    EXPECT_TRUE(eventually([&] { return crew_.find(9)->worker->job().state == AssignedState::ready; }));
    fill_.set_at_rest([this] { return at_rest_; });
    for (std::int64_t number = 1; number <= 4; ++number) looks(number, {-1}, 40ms, [](int) {});
  }
  SupervisorSettings listening_worker() {
    SupervisorSettings s = worker();
    s.doorbell = bells_.place(kMe);
    return s;
  }
  template <class AtLook>
  int looks(std::int64_t number, RankId sender, Nanoseconds length, AtLook at_look) {
    int looks = 0;
    fill_.begin_step(number);
    const Nanoseconds begin = now();
    Pause& pause = fill_.enter(0, begin, kMemory, sender);
    for (pause.begin(); now() < begin + length - 5ms; at_look(++looks)) pause.pause();  // not to the deadline: it polls
    fill_.leave();
    fill_.record(0, begin, begin + length, kMemory);
    fill_.end_step(length);
    return looks;
  }

  static constexpr RankId kMe{0}, kSender{1}, kFar{2};
  Doorbells bells_{{kMe, kSender}};
  FillCrew crew_;
  BubbleFill fill_{settings(), kProgram, crew_, trace(), {&bells_, kMe}};
  bool at_rest_ = true;
};

TEST_F(Listening, SleepsOverChunksUntilItIsRung) {
  std::int64_t number = 4;
  const auto nothing = [](int) {};
  int all = 0;  // of three bubbles: somebody else may want the core
  for (int i = 0; i < 3; ++i) all = std::max(all, looks(++number, kFar, 40ms, nothing));
  EXPECT_GT(all, 10) << "a sender on another host rings nobody";
  const auto once_in_five = [&](auto&& holds) {
    for (int i = 0; i < 5; ++i)
      if (holds(looks(++number, kSender, 40ms, nothing))) return true;
    return false;
  };
  const auto few = [&](int looks) { return looks < all / 3; };
  const auto many = [&](int looks) { return looks > all / 2; };
  EXPECT_TRUE(once_in_five(few));
  at_rest_ = false;
  EXPECT_TRUE(once_in_five(many)) << "what it sent needs its progress";
  at_rest_ = true;
  bells_.ring(kMe);
  EXPECT_TRUE(once_in_five(many)) << "what it was rung for before has not come whole";
  bells_.answer(kMe);
  EXPECT_TRUE(once_in_five(few));
  std::thread sender([&] {
    std::this_thread::sleep_for(10ms);
    bells_.ring(kMe);
  });
  EXPECT_GT(looks(++number, kSender, 40ms, nothing), 5) << "in the midst of its sleep";
  sender.join();
}

TEST_F(Granting, AnUnfilledStepRunsNothing) {
  BubbleFillSettings s = settings();
  s.audit.audit = 0.5;
  BubbleFill fill(s, kProgram, crew_, trace());
  step(fill, 1);
  for (int number = 2; number <= 9; ++number) {
    const std::int64_t before = done();
    const Nanoseconds sold = step(fill, number);
    if (fill.audit(number).mode == StepMode::unfilled) {
      EXPECT_EQ(sold, Nanoseconds{0}) << number;
      EXPECT_LE(done(), before + 1) << number;
    } else {
      EXPECT_GT(done(), before) << number;
    }
  }
}

TEST_F(Granting, WithoutAJobAStepIsNotFilled) {
  BubbleFill fill(settings(), kProgram, crew_, trace());
  step(fill, 1);
  fill.begin_step(2);
  EXPECT_TRUE(fill.step_is_filled());
  crew_.release(7);
  fill.begin_step(3);
  EXPECT_FALSE(fill.step_is_filled());
}

TEST_F(Granting, AloneItsChunksAreRecordedAsExclusive) {
  BubbleFill fill(settings(), kProgram, crew_, trace());
  fill.run_alone(50ms);
  const std::int64_t chunks = done();
  EXPECT_GT(chunks, 5);
  std::int64_t exclusive = 0;
  for (const EventRow& row : recorded().event_rows) {
    EXPECT_EQ(static_cast<EventKind>(row.kind), EventKind::exclusive);
    EXPECT_EQ(row.job, 7);
    EXPECT_GE(row.end_ns - row.start_ns, 200'000);
    ++exclusive;
  }
  EXPECT_GE(exclusive, chunks - 1);
}

TEST_F(Granting, AnUngatedStrategyRunsAllStepLongAndPausesBetween) {
  BubbleFillSettings s = settings();
  s.strategy.strategy = FillStrategy::naive;
  BubbleFill fill(s, kProgram, crew_, trace());
  fill.begin_step(2);
  EXPECT_TRUE(eventually([&] { return done() > 10; })) << "no bubble is needed";
  fill.pause_work();
  const std::int64_t chunks = done();
  std::this_thread::sleep_for(30ms);
  EXPECT_LE(done(), chunks + 1);
}

TEST_F(FillTest, AnUngatedJobStoppedInItsChunkRunsOnInTheNextFilledStep) {
  SupervisorSettings of_process = worker(FillIsolation::process);
  of_process.grace = 500us;  // far less than a chunk: it is stopped hard
  FillCrew crew(of_process, make_null_log());
  crew.assign({.number = 8, .directory = job_directory("job-8", "chunks: 100000, chunk_us: 60000")});
  Supervisor& its = *crew.find(8)->worker;
  ASSERT_TRUE(eventually([&] { return its.job().state == AssignedState::ready; }));
  BubbleFillSettings s;
  s.audit = {.first_step = 2, .block = 1, .audit = 0};
  s.strategy.strategy = FillStrategy::naive;
  BubbleFill fill(s, kProgram, crew, trace());
  fill.begin_step(2);
  ASSERT_TRUE(eventually([&] { return its.channel().chunk_began() > Nanoseconds{0}; }));
  fill.pause_work();
  EXPECT_EQ(its.hard_stops(), 1);
  const std::int64_t before = its.job().done;
  fill.begin_step(3);
  EXPECT_TRUE(eventually([&] { return its.job().done > before; }));
}

}  // namespace
}  // namespace pipefill::testing
