// The transport cases over threads, buffered and synchronous, and what only the loopback has: faults, aborts.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/error.hpp"
#include "comm/loopback_transport.hpp"
#include "comm/message.hpp"
#include "comm/wait.hpp"
#include "tests/comm/transport_cases.hpp"

namespace pipefill {
namespace {

class OverLoopback : public testing::TestWithParam<std::tuple<TransportCase, SendMode, int>> {};

TEST_P(OverLoopback, Holds) {
  const auto& [transport_case, mode, size] = GetParam();
  run_loopback(size, transport_case.body, {mode, {}});
}

INSTANTIATE_TEST_SUITE_P(Transport, OverLoopback,
                         testing::Combine(testing::ValuesIn(transport_cases().begin(), transport_cases().end()),
                                          testing::Values(SendMode::buffered, SendMode::synchronous),
                                          testing::Values(2, 3, 4)),
                         [](const auto& chosen) {
                           return std::string(std::get<0>(chosen.param).name) +
                                  (std::get<1>(chosen.param) == SendMode::buffered ? "Buffered" : "Synchronous") +
                                  std::to_string(std::get<2>(chosen.param));
                         });

constexpr Tag kTag{Channel::activation, 0, {0}};

TEST(Loopback, ASynchronousSendIsDoneOnlyWhenReceived) {
  for (const SendMode mode : {SendMode::buffered, SendMode::synchronous}) {
    LoopbackHub hub(2, {mode, {}});
    const auto a = hub.endpoint({0});
    const auto b = hub.endpoint({1});
    std::vector<std::byte> outgoing(8, std::byte{3}), incoming(8);
    Request send = a->send({1}, kTag, outgoing);
    EXPECT_EQ(a->test(send), mode == SendMode::buffered);
    Request receive = b->receive({0}, kTag, incoming);
    EXPECT_TRUE(!send.pending() || a->test(send));
    EXPECT_TRUE(b->test(receive));
    EXPECT_EQ(incoming, outgoing);
  }
}

TEST(Loopback, ADroppedMessageEndsInADeadlineAndSparesTheOthers) {
  LoopbackHub hub(2, {SendMode::buffered, [](RankId, RankId, Tag tag) {
                        return LoopbackFault{tag.microbatch == MicrobatchId{1}, {}};
                      }});
  const auto a = hub.endpoint({0});
  const auto b = hub.endpoint({1});
  std::vector<std::byte> outgoing(8), incoming(8);
  for (const int microbatch : {0, 1, 2}) {
    const Tag tag{Channel::activation, 0, {microbatch}};
    Request send = a->send({1}, tag, outgoing);
    Request receive = b->receive({0}, tag, incoming);
    Waiter waiter({2, 1}, {1}, {WaitMethod::sleep, std::chrono::milliseconds(20), nullptr});
    const WaitSubject subject{WaitKind::receive, {0}, tag, 1};
    if (microbatch == 1) {
      EXPECT_THROW(waiter.wait(*b, receive, subject), TransportError);
      EXPECT_TRUE(b->abandon(receive));
    } else {
      EXPECT_NO_THROW(waiter.wait(*b, receive, subject));
    }
    EXPECT_TRUE(a->test(send));
  }
}

TEST(Loopback, ADelayedMessageHoldsBackThoseBehindIt) {
  int sent = 0;
  LoopbackHub hub(
      2, {SendMode::buffered, [&](RankId, RankId, Tag) {
            return LoopbackFault{false, sent++ == 0 ? Nanoseconds(std::chrono::milliseconds(30)) : Nanoseconds{}};
          }});
  const auto a = hub.endpoint({0});
  const auto b = hub.endpoint({1});
  const Nanoseconds start = now();
  std::vector<std::byte> first(4, std::byte{1}), second(4, std::byte{2}), into_first(4), into_second(4);
  Request s1 = a->send({1}, kTag, first);
  Request s2 = a->send({1}, kTag, second);
  Request r1 = b->receive({0}, kTag, into_first);
  Request r2 = b->receive({0}, kTag, into_second);
  if (!b->test(r2)) {
    while (!b->test(r2)) std::this_thread::yield();
  }
  EXPECT_GE(now() - start, std::chrono::milliseconds(30));
  EXPECT_TRUE(b->test(r1));
  EXPECT_EQ(into_first, first);
  EXPECT_EQ(into_second, second);
  EXPECT_TRUE(a->test(s1));
  EXPECT_TRUE(a->test(s2));
}

TEST(Loopback, AnErrorOfOneRankEndsTheOthersWaits) {
  EXPECT_THROW(
      run_loopback(3,
                   [](Transport& transport) {
                     if (transport.rank() == RankId{1}) throw DivergedError("the loss is not a number");
                     std::vector<std::byte> incoming(8);
                     Request receive = transport.receive({1}, kTag, incoming);
                     Waiter waiter({3, 1}, transport.rank(), {WaitMethod::yield, std::chrono::seconds(20), nullptr});
                     waiter.wait(transport, receive, {WaitKind::receive, {1}, kTag, 1});
                   }),
      DivergedError);
}

TEST(Loopback, AMessageThatGoesAwayWhilePostedLeavesNoPointerBehind) {
  LoopbackHub hub(2, {SendMode::synchronous, {}});
  const auto a = hub.endpoint({0});
  const auto b = hub.endpoint({1});
  {
    Message incoming(1000), outgoing(1000);
    incoming.receive(*b, {0}, kTag, 1);
    outgoing.send(*b, {0}, kTag, 1);
  }
  // With a pointer left, this would write into, or read from, freed memory (address sanitizer).
  Message outgoing(1000), incoming(1000);
  outgoing.send(*a, {1}, kTag, 2);
  incoming.receive(*a, {1}, kTag, 2);
  EXPECT_FALSE(outgoing.test());
  EXPECT_FALSE(incoming.test());
}

TEST(Loopback, AMessageOfAnotherStepIsRefused) {
  LoopbackHub hub(2);
  const auto a = hub.endpoint({0});
  const auto b = hub.endpoint({1});
  Message outgoing(16), incoming(16);
  outgoing.payload<float>()[3] = 2.5F;
  const Nanoseconds before = now();
  outgoing.send(*a, {1}, kTag, 7);
  incoming.receive(*b, {0}, kTag, 7);
  EXPECT_TRUE(incoming.test());
  EXPECT_EQ(incoming.payload<float>()[3], 2.5F);
  EXPECT_GE(incoming.header().ready_ns, before.count());
  EXPECT_LE(incoming.header().ready_ns, now().count());
  EXPECT_TRUE(outgoing.test());

  outgoing.send(*a, {1}, kTag, 7);
  incoming.receive(*b, {0}, kTag, 8);
  EXPECT_THROW((void)incoming.test(), TransportError);
}

}  // namespace
}  // namespace pipefill
