// Who runs where, the shared board, and messages that leave while their sender computes.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "comm/clock_offset.hpp"
#include "comm/liveness_board.hpp"
#include "comm/message.hpp"
#include "comm/mpi_transport.hpp"
#include "comm/wait.hpp"
#include "tests/support/mpi_test.hpp"

namespace pipefill {
namespace {

TEST(Cluster, KnowsItsHostAndClock) {
  const Cluster& cluster = test_cluster();
  EXPECT_EQ(cluster.mine().pid, getpid());
  EXPECT_EQ(cluster.mine().local_size, cluster.size());
  EXPECT_EQ(cluster.local_ranks().size(), static_cast<std::size_t>(cluster.size()));
  for (int r = 0; r < cluster.size(); ++r) {
    const RankInfo& info = cluster.ranks()[static_cast<std::size_t>(r)];
    EXPECT_EQ(info.rank.value, r);
    EXPECT_EQ(info.local_rank, r);
    EXPECT_EQ(info.host_leader.value, 0);
    EXPECT_EQ(info.clock_domain, cluster.mine().clock_domain);
  }
}

TEST(Cluster, BoardIsSharedAndHasNoName) {
  const Cluster& cluster = test_cluster();
  LivenessBoard board(cluster);
  board.step(100 + cluster.rank().value);
  board.doing({ActivityKind::forward, cluster.rank().value, 3});
  cluster.barrier();
  for (int r = 0; r < cluster.size(); ++r) {
    const RankState state = board.state({r});
    EXPECT_EQ(state.pid, cluster.ranks()[static_cast<std::size_t>(r)].pid);
    EXPECT_EQ(state.step, 100 + r);
    EXPECT_EQ(state.activity, (Activity{ActivityKind::forward, r, 3}));
  }
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_EQ(entry.path().filename().string().find("pipefill-board-" + std::to_string(cluster.ranks()[0].pid)),
              std::string::npos);
  }
  cluster.barrier();
}

/// Rank 0 sends `bytes` to rank 1 and computes for 200 ms in slices of 5 ms, calling progress() between them or not.
/// On rank 1: how long before the end of the computing the message was there (negative: after it).
Nanoseconds lead_over_computing(Transport& transport, std::int64_t bytes, bool with_progress) {
  const Tag tag{Channel::activation, 0, {0}};
  const ProcessLayout layout{transport.size(), 1};
  Waiter waiter(layout, transport.rank(), {WaitMethod::yield, std::chrono::seconds(20), nullptr});
  std::int64_t ended = 0;
  Request told;
  Nanoseconds lead{};
  if (transport.rank() == RankId{0}) {
    Message message(bytes);
    Message answer(8);
    message.send(transport, {1}, tag, 1);
    const Nanoseconds start = now();
    for (int slice = 1; slice <= 40; ++slice) {
      while (now() - start < slice * std::chrono::milliseconds(5)) {
      }
      if (with_progress) transport.progress();
    }
    ended = now().count();
    waiter.wait_until([&] { return message.test(); }, {WaitKind::send, {1}, tag, 1});
    told = transport.send({1}, {Channel::activation, 0, {0}}, std::as_bytes(std::span(&ended, 1)));
    waiter.wait(transport, told, {WaitKind::send, {1}, tag, 1});
  } else if (transport.rank() == RankId{1}) {
    Message message(bytes);
    message.receive(transport, {0}, tag, 1);
    waiter.wait_until([&] { return message.test(); }, {WaitKind::receive, {0}, tag, 1});
    const Nanoseconds arrived = now();
    told = transport.receive({0}, {Channel::activation, 0, {0}}, std::as_writable_bytes(std::span(&ended, 1)));
    waiter.wait(transport, told, {WaitKind::receive, {0}, tag, 1});
    lead = Nanoseconds{ended} - arrived;
  }
  return lead;
}

TEST(Progress, AMessageLeavesWhileItsSenderComputes) {
  MpiTransport transport;
  for (const std::int64_t bytes : {std::int64_t{64} << 10, std::int64_t{4} << 20}) {
    const Nanoseconds with = lead_over_computing(transport, bytes, true);
    const Nanoseconds without = lead_over_computing(transport, bytes, false);
    if (test_cluster().rank() == RankId{1}) {
      EXPECT_GT(with.count(), 0) << bytes << " bytes came after the end of the sender's computing";
      std::fprintf(stderr,
                   "%lld bytes arrive before the end of 200 ms of computing by: %.1f ms with progress, %.1f without\n",
                   static_cast<long long>(bytes), to_milliseconds(with), to_milliseconds(without));
    }
  }
}

}  // namespace
}  // namespace pipefill
