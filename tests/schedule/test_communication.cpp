// The passes: where sends, receives, reductions and bubbles stand, and safety under synchronous sends.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "interpreter.hpp"
#include "schedule/bubbles.hpp"
#include "schedule/build.hpp"
#include "schedule/communication.hpp"
#include "schedule/dry_run.hpp"
#include "schedule/text.hpp"
#include "schedule/validate.hpp"

namespace pipefill {
namespace {

TEST(Communication, LowersTheSmallestPipeline) {
  EXPECT_EQ(to_text(with_bubbles(with_communication(build_schedule("1f1b", 2, 2), Replicas::several))),
            "schedule 1f1b microbatches 2\nstage_of_chunk 0 1\n"
            "stage 0: 0F0 0SEND_F0>1 0RECV_B0<1 0F1 0SEND_F1>1 0RECV_B1<1 BUBBLE(cool_down) 0B0 BUBBLE(cool_down) 0B1 "
            "0REDUCE_GRAD BUBBLE(collective) BUBBLE(step_boundary) STEP\n"
            "stage 1: 1RECV_F0<0 BUBBLE(warm_up) 1F0 1RECV_F1<0 1B0 1SEND_B0>0 BUBBLE(steady) 1F1 1B1 1SEND_B1>0 "
            "1REDUCE_GRAD BUBBLE(collective) BUBBLE(step_boundary) STEP\n");
}

TEST(Communication, OneStageNeedsNone) {
  const Schedule schedule = with_bubbles(with_communication(build_schedule("gpipe", 1, 2), Replicas::one));
  EXPECT_EQ(to_text(schedule.programs[0].back()), "STEP");
  EXPECT_EQ(schedule.programs[0].size(), 5u);  // 0F0 0F1 0B0 0B1 STEP
}

TEST(Communication, ChunksOfOneStageExchangeNothing) {
  // Chunks 0 and 1 share stage 0, chunk 2 is on stage 1; the weight part comes last.
  const Schedule schedule = with_communication(parse_schedule("schedule mine microbatches 1\nstage_of_chunk 0 0 1\n"
                                                              "stage 0: 0F0 1F0 1I0 0I0 1W0 0W0\nstage 1: 2F0 2B0\n"),
                                               Replicas::several);
  EXPECT_EQ(to_text(schedule),
            "schedule mine microbatches 1\nstage_of_chunk 0 0 1\n"
            "stage 0: 0F0 1RECV_B0<1 1F0 1SEND_F0>1 1I0 0I0 1W0 1REDUCE_GRAD 0W0 0REDUCE_GRAD STEP\n"
            "stage 1: 2RECV_F0<0 2F0 2B0 2SEND_B0>0 2REDUCE_GRAD STEP\n");
  EXPECT_NO_THROW(validate(schedule));
}

TEST(Communication, EveryReceiveIsPostedAheadOfTheComputeBeforeItsConsumer) {
  for (const std::string& name : schedule_names()) {
    for (const Program& program : with_communication(build_schedule(name, 4, 6), Replicas::one).programs) {
      std::vector<int> computes_before(program.size());
      int computes = 0;
      for (std::size_t index = 0; index < program.size(); ++index) {
        computes_before[index] = computes;
        computes += is_compute(program[index]);
      }
      for (std::size_t index = 0; index < program.size(); ++index) {
        const auto* receive = std::get_if<RecvActivation>(&program[index]);
        if (receive == nullptr) continue;
        for (std::size_t consumer = 0; consumer < program.size(); ++consumer) {
          if (program[consumer] != Instruction{Forward{receive->chunk, receive->microbatch}}) continue;
          EXPECT_LE(computes_before[index], std::max(computes_before[consumer] - 1, 0)) << to_text(program[index]);
        }
      }
    }
  }
}

TEST(Communication, RefusesToRunTwiceOrOnWhatCannotRun) {
  const Schedule once = with_communication(build_schedule("1f1b", 2, 2), Replicas::one);
  EXPECT_THROW(with_communication(once, Replicas::one), ScheduleError);
  EXPECT_THROW(with_communication(parse_schedule("schedule mine microbatches 1\nstage_of_chunk 0 1\n"
                                                 "stage 0: 0B0 0F0\nstage 1: 1F0 1B0\n"),
                                  Replicas::one),
               ScheduleError);
}

TEST(Communication, BubblesDoNotDependOnBubblesAlreadyThere) {
  const Schedule lowered = with_communication(build_schedule("1f1b", 4, 6), Replicas::several);
  EXPECT_EQ(with_bubbles(with_bubbles(lowered)), with_bubbles(lowered));
  EXPECT_EQ(without_bubbles(with_bubbles(lowered)), lowered);
}

// The classes of the wait in front of every compute instruction, by hand, for stage 1 of 1F1B with P=3 and M=3.
TEST(Communication, BubblesHaveTheirClass) {
  const Schedule schedule = with_bubbles(build_schedule("1f1b", 3, 3));
  std::string text;
  for (const Instruction& i : schedule.programs[1]) text += to_text(i) + ' ';
  EXPECT_EQ(text,
            "BUBBLE(warm_up) 1F0 BUBBLE(warm_up) 1F1 BUBBLE(steady) 1B0 BUBBLE(steady) 1F2 BUBBLE(cool_down) 1B1 "
            "BUBBLE(cool_down) 1B2 ");
}

// Receives right before their consumers: 1F1B then runs with eager sends only (both neighbours send first).
TEST(Communication, LateReceivesAreFoundUnsafe) {
  const Schedule late = parse_schedule(
      "schedule late microbatches 2\nstage_of_chunk 0 1\n"
      "stage 0: 0F0 0SEND_F0>1 0F1 0SEND_F1>1 0RECV_B0<1 0B0 0RECV_B1<1 0B1\n"
      "stage 1: 1RECV_F0<0 1F0 1B0 1SEND_B0>0 1RECV_F1<0 1F1 1B1 1SEND_B1>0\n");
  EXPECT_NO_THROW(validate(late));
  EXPECT_TRUE(dry_run(late, SendMode::eager).complete());
  const SendSafety safety = is_safe_under_synchronous_sends(late);
  EXPECT_FALSE(safety);
  EXPECT_EQ(safety.text, "unsafe under synchronous sends: stage 0 at 3 (0SEND_F1>1), stage 1 at 3 (1SEND_B0>0)");
  EXPECT_EQ(safety.stuck, (std::vector<Place>{{0, 3}, {1, 3}}));
}

// A report of users (interleaved chunks criss-cross between two ranks): a fragment of their lists is enough to see it.
TEST(Communication, CrissCrossOfInterleavedChunksIsFoundUnsafe) {
  const Schedule fragment = parse_schedule(
      "schedule fragment microbatches 4\nstage_of_chunk 0 1 0 1\n"
      "stage 0: 2SEND_F1>1 0F2 0SEND_F2>1 2RECV_B0<1 2B0\n"
      "stage 1: 3RECV_F1<0 3SEND_B0>0 3F1 3B1 1RECV_F2<0 3SEND_B1>0 1F2\n");
  EXPECT_TRUE(dry_run(fragment, SendMode::eager).complete());
  EXPECT_EQ(is_safe_under_synchronous_sends(fragment).text,
            "unsafe under synchronous sends: stage 0 at 2 (0SEND_F2>1), stage 1 at 1 (3SEND_B0>0)");
}

// Interleaved chunks through the pass itself: safe, whatever order of compute the lists have.
TEST(Communication, InterleavedChunksAreLoweredSafely) {
  for (const char* text : {"schedule mine microbatches 2\nstage_of_chunk 0 1 0 1\n"
                           "stage 0: 0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1\nstage 1: 1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1\n",
                           "schedule mine microbatches 2\nstage_of_chunk 0 1 0 1\n"
                           "stage 0: 0F0 2F0 0F1 2B0 2F1 0B0 2B1 0B1\nstage 1: 1F0 3F0 3B0 1F1 1B0 3F1 3B1 1B1\n"}) {
    const Schedule schedule = with_communication(parse_schedule(text), Replicas::one);
    EXPECT_NO_THROW(validate(schedule));
    EXPECT_EQ(is_safe_under_synchronous_sends(schedule).text, "");
    EXPECT_TRUE(test::Interpreter(schedule, test::Interpreter::Sends::synchronous).run());
  }
}

}  // namespace
}  // namespace pipefill
