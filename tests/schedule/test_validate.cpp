// Every rule of the validator has a schedule that breaks it alone, and is named with stage, position and text.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "schedule/bubbles.hpp"
#include "schedule/build.hpp"
#include "schedule/communication.hpp"
#include "schedule/dry_run.hpp"
#include "schedule/forward_only.hpp"
#include "schedule/text.hpp"
#include "schedule/validate.hpp"

namespace pipefill {
namespace {

/// stage 0: 0F0 0F1 0B0 0B1; stage 1: 1F0 1B0 1F1 1B1
Schedule compute() { return build_schedule("1f1b", 2, 2); }
Schedule lowered() { return with_communication(compute(), Replicas::several); }
Schedule bubbled() { return with_bubbles(lowered()); }

std::string refusal(const Schedule& schedule) {
  try {
    validate(schedule);
  } catch (const ScheduleError& error) {
    EXPECT_EQ(error.code(), ExitCode::deck);
    return error.what();
  }
  return "accepted";
}

/// Replaces `from` (all of it, once) by `to`, which may be several words or none.
Schedule replaced(const Schedule& schedule, const std::string& from, const std::string& to) {
  std::string text = to_text(schedule);
  const auto at = text.find(' ' + from);
  EXPECT_NE(at, std::string::npos) << from;
  return parse_schedule(text.replace(at, from.size() + 1, to.empty() ? "" : ' ' + to));
}

void expect_refused(const Schedule& schedule, const std::string& expected) {
  const std::string text = refusal(schedule);
  EXPECT_NE(text.find(expected), std::string::npos) << text << "\nexpected: " << expected;
}

TEST(Validate, AcceptsWhatBuildersAndPassesMake) {
  for (const Schedule& schedule : {compute(), lowered(), bubbled(), forward_only(3, 2),
                                   with_communication(forward_only(3, 2), Replicas::several)}) {
    EXPECT_EQ(refusal(schedule), "accepted");
  }
}

TEST(Validate, Shape) {
  Schedule none = compute();
  none.programs.clear();
  expect_refused(none, "has no stages");
  Schedule unchunked = compute();
  unchunked.stage_of_chunk.clear();
  expect_refused(unchunked, "has no chunks");
  Schedule misplaced = compute();
  misplaced.stage_of_chunk[1] = StageId{2};
  expect_refused(misplaced, "puts chunk 1 on stage 2, but has 2 stages");
  Schedule empty = compute();
  empty.microbatches = 0;
  expect_refused(empty, "has 0 microbatches, needs at least 1");
  Schedule huge = compute();
  huge.microbatches = 2'000'000'000;
  expect_refused(huge, "has 2000000000 microbatches, but only 8 instructions");
}

TEST(Validate, IndicesInRange) {
  expect_refused(replaced(compute(), "0B1", "0B1 0B2"), "stage 0 at 4 (0B2): microbatch 2 is outside 0..1");
  expect_refused(replaced(compute(), "0B1", "0B1 2F0"), "stage 0 at 4 (2F0): chunk 2 is outside 0..1");
  expect_refused(replaced(lowered(), "0REDUCE_GRAD", "5REDUCE_GRAD"), "(5REDUCE_GRAD): chunk 5 is outside 0..1");
}

TEST(Validate, ChunkOnItsStage) {
  expect_refused(replaced(replaced(compute(), "1F1", ""), "0F1", "0F1 1F1"),
                 "stage 0 at 2 (1F1): chunk 1 is on stage 1");
}

TEST(Validate, EveryForwardAndBackwardExactlyOnce) {
  expect_refused(replaced(compute(), "0F1", ""), "stage 0: 0F1 is missing");
  expect_refused(replaced(compute(), "0B1", ""), "stage 0: 0B1 (or 0I1 and 0W1) is missing");
  expect_refused(replaced(compute(), "0F1", "0F1 0F1"),
                 "stage 0 at 2 (0F1): is there a second time, first on stage 0 at 1");
  expect_refused(replaced(compute(), "1B1", "1B1 1B1"), "stage 1 at 4 (1B1): is there a second time");
}

TEST(Validate, ABackwardIsWholeOrBothParts) {
  EXPECT_EQ(refusal(replaced(compute(), "0B1", "0I1 0W1")), "accepted");
  expect_refused(replaced(compute(), "0B1", "0I1"), "0W1 is missing: 0I1 is only half a backward");
  expect_refused(replaced(compute(), "0B1", "0W1"), "0I1 is missing: 0W1 is only half a backward");
  expect_refused(replaced(compute(), "0B1", "0B1 0W1"), "0B1 and its parts 0I1 or 0W1 are both there");
}

TEST(Validate, LegalOrderOnAStage) {
  expect_refused(replaced(compute(), "1F1 1B1", "1B1 1F1"),
                 "stage 1 at 2 (1B1): comes before 1F1 at 3, which it needs");
  expect_refused(replaced(compute(), "0B1", "0W1 0I1"), "stage 0 at 3 (0W1): comes before 0I1 at 4, which it needs");
  expect_refused(replaced(lowered(), "0F1 0SEND_F1>1", "0SEND_F1>1 0F1"), "(0SEND_F1>1): comes before 0F1");
  expect_refused(replaced(replaced(lowered(), "0RECV_B1<1", ""), "0B1", "0B1 0RECV_B1<1"),
                 "(0B1): comes before 0RECV_B1<1");
  expect_refused(replaced(replaced(lowered(), "0REDUCE_GRAD", ""), "0B1", "0REDUCE_GRAD 0B1"),
                 "(0REDUCE_GRAD): comes before 0B1");
}

TEST(Validate, MessagesPairUp) {
  expect_refused(replaced(lowered(), "0SEND_F1>1", ""), "(1RECV_F1<0): stage 0 has no 0SEND_F1 for it");
  expect_refused(replaced(lowered(), "0RECV_B1<1", ""), "(1SEND_B1>0): stage 0 has no 0RECV_B1 for it");
  expect_refused(replaced(replaced(lowered(), "0SEND_F1>1", ""), "1RECV_F1<0", ""),
                 "stage 0: 0SEND_F1 and 1RECV_F1 are missing");
  expect_refused(replaced(replaced(lowered(), "1SEND_B0>0", ""), "0RECV_B0<1", ""),
                 "stage 1: 1SEND_B0 and 0RECV_B0 are missing");
  expect_refused(replaced(lowered(), "0SEND_F1>1", "0SEND_F1>0"), "names stage 0, but chunk 1 is on stage 1");
  expect_refused(replaced(lowered(), "0SEND_F1>1", "0SEND_F1>1 0SEND_F1>1"), "is there a second time");
  expect_refused(replaced(lowered(), "0SEND_F1>1", "0SEND_F1>1 0SEND_B1>1"), "there is no chunk -1 to exchange with");
  const Schedule one_stage = parse_schedule(
      "schedule mine microbatches 1\nstage_of_chunk 0 0\nstage 0: 0F0 0SEND_F0>0 1RECV_F0<0 1F0 1B0 0B0\n");
  expect_refused(one_stage, "chunk 1 is on the same stage: nothing to exchange");
  expect_refused(replaced(replaced(with_communication(forward_only(2, 1), Replicas::one), "1F0", "1F0 1SEND_B0>0"),
                          "0F0", "0RECV_B0<1 0F0"),
                 "(1SEND_B0>0): no backward makes this gradient");
}

TEST(Validate, ReductionsOfAllChunksOrNone) {
  expect_refused(replaced(lowered(), "1REDUCE_GRAD", ""), "stage 1: 1REDUCE_GRAD is missing, other chunks have theirs");
  expect_refused(replaced(lowered(), "1REDUCE_GRAD", "1REDUCE_GRAD 1REDUCE_GRAD"),
                 "(1REDUCE_GRAD): is there a second time");
  expect_refused(replaced(forward_only(1, 1), "0F0", "0F0 0REDUCE_GRAD"), "no gradients in a forward-only schedule");
}

TEST(Validate, OneOptimizerStepAtTheEndOfEveryStage) {
  expect_refused(replaced(lowered(), "STEP", ""), "stage 0: STEP is missing");
  expect_refused(replaced(lowered(), "STEP", "STEP STEP"), "(STEP): is there a second time");
  expect_refused(replaced(lowered(), "0REDUCE_GRAD STEP", "STEP 0REDUCE_GRAD"),
                 "must be the last instruction of its stage");
  expect_refused(replaced(forward_only(1, 1), "0F0", "0F0 STEP"), "nothing to update in a forward-only schedule");
}

TEST(Validate, EveryWaitHasItsBubble) {
  expect_refused(replaced(bubbled(), "BUBBLE(warm_up)", ""), "so that every wait has its Bubble");
  expect_refused(replaced(bubbled(), "BUBBLE(warm_up)", "BUBBLE(cool_down)"), "expected BUBBLE(warm_up) here");
  expect_refused(replaced(bubbled(), "STEP", "BUBBLE(steady) STEP"), "(BUBBLE(steady)): expected STEP here");
}

TEST(Validate, AllProgramsTogetherEnd) {
  const Schedule stuck = replaced(compute(), "1F0 1B0 1F1 1B1", "1F0 1F1 1B0 1B1");
  EXPECT_EQ(refusal(stuck), "accepted");  // stage 0 sends both before it waits
  const Schedule cycle = replaced(stuck, "0F0 0F1 0B0 0B1", "0F0 0B0 0F1 0B1");
  expect_refused(cycle,
                 "stage 0 at 1 (0B0) waits for stage 1 at 2 (1B0), stage 1 at 1 (1F1) waits for stage 0 at 2 (0F1)");
}

TEST(Validate, ReportsEverythingAtOnce) {
  Schedule schedule = replaced(replaced(compute(), "0F1", ""), "1B1", "1B1 1B7");
  const std::string text = refusal(schedule);
  EXPECT_NE(text.find("schedule '1f1b' cannot be run, 2 mistakes found:"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  stage 1 at 4 (1B7): microbatch 7 is outside 0..1"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  stage 0: 0F1 is missing"), std::string::npos) << text;
}

}  // namespace
}  // namespace pipefill
