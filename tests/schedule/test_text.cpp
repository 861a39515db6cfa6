// The text form: exact round trips, and refusals that say where.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "schedule/bubbles.hpp"
#include "schedule/build.hpp"
#include "schedule/communication.hpp"
#include "schedule/text.hpp"

namespace pipefill {
namespace {

TEST(Text, WritesEveryKind) {
  const ModelChunkId chunk{12};
  const MicrobatchId microbatch{3};
  const StageId peer{4};
  EXPECT_EQ(to_text(Forward{chunk, microbatch}), "12F3");
  EXPECT_EQ(to_text(Backward{chunk, microbatch}), "12B3");
  EXPECT_EQ(to_text(BackwardInput{chunk, microbatch}), "12I3");
  EXPECT_EQ(to_text(BackwardWeight{chunk, microbatch}), "12W3");
  EXPECT_EQ(to_text(SendActivation{chunk, microbatch, peer}), "12SEND_F3>4");
  EXPECT_EQ(to_text(RecvActivation{chunk, microbatch, peer}), "12RECV_F3<4");
  EXPECT_EQ(to_text(SendGradient{chunk, microbatch, peer}), "12SEND_B3>4");
  EXPECT_EQ(to_text(RecvGradient{chunk, microbatch, peer}), "12RECV_B3<4");
  EXPECT_EQ(to_text(ReduceGradients{chunk}), "12REDUCE_GRAD");
  EXPECT_EQ(to_text(OptimizerStep{}), "STEP");
  EXPECT_EQ(to_text(Bubble{BubbleClass::step_boundary}), "BUBBLE(step_boundary)");
}

TEST(Text, EveryInstructionComesBack) {
  for (const char* text :
       {"0F0", "7B12", "1I2", "1W2", "0SEND_F3>1", "1RECV_F3<0", "1SEND_B3>0", "0RECV_B3<1", "5REDUCE_GRAD", "STEP",
        "BUBBLE(warm_up)", "BUBBLE(steady)", "BUBBLE(cool_down)", "BUBBLE(collective)", "BUBBLE(step_boundary)"}) {
    const auto instruction = parse_instruction(text);
    ASSERT_TRUE(instruction) << text;
    EXPECT_EQ(to_text(*instruction), text);
  }
}

TEST(Text, HalfAnInstructionIsNone) {
  for (const char* text : {"",
                           "F",
                           "F0",
                           "0F",
                           "0F0x",
                           "0F-1",
                           "-1F0",
                           "+1F0",
                           " 0F0",
                           "0F0 ",
                           "0X3",
                           "0SEND_F3",
                           "0SEND_F3>",
                           "0SEND_F3<1",
                           "0RECV_F3>1",
                           "0REDUCE_GRAD0",
                           "STEPS",
                           "BUBBLE",
                           "BUBBLE(steady",
                           "BUBBLE(idle)",
                           "99999999999F0",
                           "0f0"}) {
    EXPECT_FALSE(parse_instruction(text)) << text;
  }
}

TEST(Text, EveryScheduleComesBack) {
  for (const std::string& name : schedule_names()) {
    for (int stages : {1, 2, 4}) {
      for (int microbatches : {1, 3, 12}) {
        const Schedule schedule =
            with_bubbles(with_communication(build_schedule(name, stages, microbatches), Replicas::several));
        EXPECT_EQ(parse_schedule(to_text(schedule)), schedule);
      }
    }
  }
}

std::string refusal(const std::string& text) {
  try {
    parse_schedule(text);
  } catch (const ScheduleError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Text, RefusesWithPlaceAndText) {
  const std::string head = "schedule mine microbatches 1\nstage_of_chunk 0 0\n";
  EXPECT_EQ(refusal(head + "stage 0: 0F0 1F0\n"), "accepted");
  EXPECT_NE(refusal(head + "stage 0: 0F0 1G0\n").find("line 3, column 14: expected an instruction"), std::string::npos);
  EXPECT_NE(refusal(head + "stage 0: 0F0 1G0\n").find("found '1G0'"), std::string::npos);
  EXPECT_NE(refusal(head + "stage 1: 0F0\n").find("line 3, column 7: expected '0:'"), std::string::npos);
  EXPECT_NE(refusal(head + "stage 0: 0F0").find("expected a line end"), std::string::npos);
  EXPECT_NE(refusal("schedule mine microbatches many\n").find("line 1, column 28"), std::string::npos);
  EXPECT_NE(refusal("schedule mine microbatches 1\nstage_of_chunk 0 x\n").find("line 2, column 18"), std::string::npos);
  EXPECT_NE(refusal("").find("line 1, column 1: expected 'schedule', found the end"), std::string::npos);
}

}  // namespace
}  // namespace pipefill
