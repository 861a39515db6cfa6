// What needs no second rank: layout, packed activities, MPI tags, waiting, clock models, transfer times.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/error.hpp"
#include "comm/activity.hpp"
#include "comm/clock_offset.hpp"
#include "comm/cluster.hpp"
#include "comm/liveness_board.hpp"
#include "comm/loopback_transport.hpp"
#include "comm/tag_code.hpp"
#include "comm/transfer_time.hpp"
#include "comm/wait.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

template <class Call>
std::string error_text(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ProcessLayout, StagesOfAReplicaAreConsecutiveRanks) {
  const ProcessLayout layout{4, 3};
  EXPECT_EQ(layout.ranks(), 12);
  std::set<int> seen;
  for (int replica = 0; replica < 3; ++replica) {
    for (int stage = 0; stage < 4; ++stage) {
      const RankId rank = layout.rank_of({stage}, {replica});
      EXPECT_TRUE(seen.insert(rank.value).second);
      EXPECT_EQ(layout.stage_of(rank), StageId{stage});
      EXPECT_EQ(layout.replica_of(rank), ReplicaId{replica});
      EXPECT_TRUE(stage == 0 || rank.value == layout.rank_of({stage - 1}, {replica}).value + 1);
    }
  }
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 11);
}

TEST(ProcessLayout, TableHasALineForEachRank) {
  const std::string table =
      placement_table({{{0}, "node-a", 10, {0}, 0, 1, ""}, {{1}, "b", 4000000, {1}, 0, 1, ""}}, {2, 1});
  EXPECT_EQ(table,
            "rank  host    local     pid  stage  replica\n"
            "   0  node-a      0      10      0        0\n"
            "   1  b           0  4000000      1        0\n");
}

TEST(Activity, SurvivesItsWord) {
  for (int kind = 0; kind <= static_cast<int>(ActivityKind::finishing); ++kind) {
    for (const int number : {-1, 0, 1, 32767}) {
      const Activity activity{static_cast<ActivityKind>(kind), number, -number};
      EXPECT_EQ(unpack_activity(pack(activity)), activity);
      EXPECT_NE(describe(activity).front(), '?');
    }
  }
  const Activity validating{ActivityKind::forward, 1, 2, Purpose::validation};
  EXPECT_EQ(unpack_activity(pack(validating)), validating);
  EXPECT_EQ(describe(validating), "validation, forward of microbatch 2 in chunk 1");
  for (int channel = 0; channel < kChannels; ++channel) {
    for (const int number : {-1, 0, 5, 32767}) {
      const WaitSubject subject{WaitKind::receive, {number}, {static_cast<Channel>(channel), number, {number}}, 0};
      EXPECT_EQ(unpack_wait(pack(subject)), subject);
    }
  }
  // Waits for several messages at once name none of them.
  for (const WaitKind kind : {WaitKind::send, WaitKind::collective, WaitKind::reduction}) {
    const std::string text = describe(WaitSubject{.kind = kind}, {2, 2});
    EXPECT_EQ(text.find("microbatch"), text.npos) << text;
  }
  EXPECT_EQ(unpack_wait(0).kind, WaitKind::none);  // an untouched board says: waits for nothing
}

TEST(TagCode, IsUniqueAndWithinTheBound) {
  for (const int largest : {32767, 2147483647, 40000}) {
    std::set<int> seen;
    for (int item = 0; item < 32; ++item) {
      for (int microbatch = 0; microbatch < 1024; ++microbatch) {
        const int code = encode_tag({Channel::gradient, item, {microbatch}}, largest);
        ASSERT_TRUE(code >= 0 && code <= largest);
        ASSERT_TRUE(seen.insert(code).second) << item << " " << microbatch;
      }
    }
  }
}

TEST(TagCode, WhatDoesNotFitIsAnError) {
  EXPECT_THROW((void)encode_tag({Channel::gradient, 32, {0}}, 32767), TransportError);
  EXPECT_THROW((void)encode_tag({Channel::gradient, 0, {1024}}, 32767), TransportError);
  EXPECT_THROW((void)encode_tag({Channel::gradient, -1, {0}}, 32767), TransportError);
  EXPECT_NO_THROW((void)encode_tag({Channel::gradient, 32, {1024}}, 2147483647));
}

TEST(Wait, EveryMethodEndsWhenDoneAndKeepsItsDeadline) {
  for (const WaitMethod method : {WaitMethod::spin, WaitMethod::yield, WaitMethod::sleep}) {
    Waiter waiter({2, 1}, {0}, {method, 60s, nullptr});  // five tests may take longer than 20 ms on a busy machine
    int tests = 0;
    waiter.wait_until([&] { return ++tests == 5; }, {});
    EXPECT_EQ(tests, 5);
    waiter.set_deadline(20ms);
    const Nanoseconds start = now();
    EXPECT_THROW(waiter.wait_until([] { return false; }, {WaitKind::collective, {-1}, {}, 3}), TransportError);
    EXPECT_GE(now() - start, 20ms);
  }
}

TEST(Wait, WhatComesWhileTheWaiterIsHeldUpIsNotLate) {
  Waiter waiter({2, 1}, {0}, {WaitMethod::spin, 1s, nullptr});
  int tests = 0;
  EXPECT_NO_THROW(waiter.wait_until(
      [&] {
        // The second test, of a wait that has begun, gets no processor for longer than the deadline.
        if (++tests == 2) std::this_thread::sleep_for(1500ms);
        return tests == 3;
      },
      {}));
  EXPECT_EQ(tests, 3);
}

TEST(Wait, AStopFromAnotherThreadEndsIt) {
  std::atomic<bool> stop{false};
  Waiter waiter({2, 1}, {0}, {WaitMethod::sleep, 60s, &stop});
  std::thread stopper([&] {
    std::this_thread::sleep_for(10ms);
    stop = true;
  });
  const std::string text = error_text([&] {
    waiter.wait_until([] { return false; }, {WaitKind::receive, {1}, {Channel::gradient, 1, {4}}, 9});
  });
  stopper.join();
  EXPECT_NE(text.find("being ended"), text.npos) << text;
  EXPECT_NE(text.find("the gradient of microbatch 4 for chunk 1 from rank 1 (stage 1) in step 9"), text.npos) << text;
}

TEST(Wait, IsOnTheBoardWhileItLasts) {
  LivenessBoard board({{0}, {1}}, {0});
  Waiter waiter({2, 1}, {0}, {WaitMethod::yield, 10s, nullptr}, &board);
  board.step(7);
  const WaitSubject subject{WaitKind::receive, {1}, {Channel::activation, 1, {2}}, 7};
  int tests = 0;
  waiter.wait_until(
      [&] {
        if (++tests == 1) {
          EXPECT_EQ(board.state({0}).waiting.kind, WaitKind::none);  // nothing is said when nothing is waited for
        } else {
          EXPECT_EQ(board.state({0}).waiting, subject);
        }
        return tests == 3;
      },
      subject);
  EXPECT_EQ(board.state({0}).waiting.kind, WaitKind::none);
}

/// Stands for a pause that another event ends, such as a fill worker's finished chunk.
class CountingPause final : public Pause {
 public:
  void begin() override { ++begun; }
  void pause() override { ++paused; }
  int begun = 0, paused = 0;
};

TEST(Wait, TakesAnyPause) {
  Waiter waiter({1, 1}, {0}, {});
  CountingPause pause;
  int tests = 0;
  waiter.wait_until([&] { return ++tests == 4; }, {}, pause);
  EXPECT_EQ(pause.begun, 1);
  EXPECT_EQ(pause.paused, 3);
}

TEST(ClockOffset, TheFastestRoundTripIsTakenAndBoundsTheError) {
  // Rank 0's clock is 1000 ahead. Round 1: 500 there, 20 back; round 2: 30 and 10; round 3: 5 and 400.
  const auto round = [](std::int64_t start, std::int64_t there, std::int64_t back) {
    return ClockRound{Nanoseconds{start}, Nanoseconds{start + there + 1000}, Nanoseconds{start + there + back}};
  };
  const ClockReading reading = best_reading({round(0, 500, 20), round(10'000, 30, 10), round(20'000, 5, 400)});
  EXPECT_EQ(reading.uncertainty.count(), 20);
  EXPECT_LE(std::abs(reading.offset.count() - 1000), 20);
  EXPECT_EQ(reading.at.count(), 10'020);
}

TEST(ClockOffset, TimesGoFromAnyRanksClockToAnyOthers) {
  // Rank 1 started 1 s behind rank 0, rank 2 is 5 us ahead.
  const ClockModel model({{0ns, 0ns, 0ns}, {1s, 50ns, 0ns}, {-5us, 80ns, 0ns}});
  EXPECT_EQ(model.convert(10ms, {1}, {0}), 1s + 10ms);
  EXPECT_EQ(model.convert(10ms, {1}, {2}), 1s + 10ms + 5us);
  EXPECT_EQ(model.convert(10ms, {2}, {2}), 10ms);
  EXPECT_EQ(ClockModel().convert(3s, {0}, {5}), 3s);
}

TEST(TransferTime, IsAStraightLineBetweenMeasuredSizesAndNeverFalls) {
  const TransferTime time({{{1000}, 30ns}, {{100}, 10ns}, {{2000}, 20ns}, {{4000}, 60ns}});
  EXPECT_EQ(time(Bytes{1}), 10ns);
  EXPECT_EQ(time(Bytes{100}), 10ns);
  EXPECT_EQ(time(Bytes{550}), 20ns);
  EXPECT_EQ(time(Bytes{1500}), 30ns);  // the fall to 20 at 2000 is noise
  EXPECT_EQ(time(Bytes{3000}), 45ns);
  EXPECT_EQ(time(Bytes{8000}), 120ns);
  EXPECT_EQ(TransferTime()(Bytes{1 << 20}), 0ns);
}

}  // namespace
}  // namespace pipefill
