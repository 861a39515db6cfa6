// Core shares: every core to somebody, nobody without one, a launcher's own binding respected.
#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <thread>

#include "device/cpu/binding.hpp"

namespace pipefill {
namespace {

using Cores = std::vector<int>;

std::vector<CoreShare> shares(const std::vector<Cores>& allowed) {
  std::vector<CoreShare> all;
  for (int i = 0; i < static_cast<int>(allowed.size()); ++i) all.push_back(share_of_cores(allowed, i));
  return all;
}

TEST(Binding, EqualMasksAreDividedCompletelyWithoutOverlap) {
  for (int cores = 1; cores <= 9; ++cores) {
    for (int ranks = 1; ranks <= cores; ++ranks) {
      Cores mask;
      for (int c = 0; c < cores; ++c) mask.push_back(2 * c + 3);
      std::multiset<int> given;
      std::size_t smallest = 99, largest = 0;
      for (const CoreShare& share : shares(std::vector<Cores>(static_cast<std::size_t>(ranks), mask))) {
        given.insert(share.cores.begin(), share.cores.end());
        smallest = std::min(smallest, share.cores.size());
        largest = std::max(largest, share.cores.size());
        EXPECT_EQ(share.ranks_per_core, 1);
      }
      EXPECT_EQ(Cores(given.begin(), given.end()), mask) << cores << " cores, " << ranks << " ranks";
      EXPECT_LE(largest - smallest, 1U);
    }
  }
}

TEST(Binding, MoreRanksThanCoresShareAndSaySo) {
  const std::vector<CoreShare> all = shares(std::vector<Cores>(5, Cores{4, 7}));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].cores, Cores{i % 2 == 0 ? 4 : 7});
    EXPECT_EQ(all[i].ranks_per_core, 3);
  }
}

TEST(Binding, ALaunchersOwnBindingStands) {
  const std::vector<CoreShare> one_each = shares({{0}, {1}, {2}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(one_each[static_cast<std::size_t>(i)].cores, Cores{i});
    EXPECT_EQ(one_each[static_cast<std::size_t>(i)].ranks_per_core, 1);
  }
  // Two ranks a socket: each pair divides its socket.
  const std::vector<CoreShare> sockets = shares({{0, 1, 2}, {3, 4, 5}, {0, 1, 2}, {3, 4, 5}});
  EXPECT_EQ(sockets[0].cores, (Cores{0, 1}));
  EXPECT_EQ(sockets[2].cores, Cores{2});
  EXPECT_EQ(sockets[3].cores, Cores{5});
}

TEST(Binding, BindsTheProcessAndItsLaterThreads) {
  std::thread(
      [] {  // a thread of its own would keep the test program free; the mask is the process's, so it is put back
        cpu_set_t before;
        ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
        const Cores all = allowed_cores();
        ASSERT_FALSE(all.empty());
        const CoreShare share = share_of_cores(std::vector<Cores>(all.size(), all), 0);
        bind_to(share);
        EXPECT_EQ(share.cores, Cores{all.front()});
        EXPECT_EQ(allowed_cores(), Cores{all.front()});
        Cores seen_by_thread;
        std::thread([&] { seen_by_thread = allowed_cores(); }).join();
        EXPECT_EQ(seen_by_thread, Cores{all.front()});
        bind_to({all, 1});
        EXPECT_EQ(allowed_cores(), all);
      })
      .join();
}

TEST(Binding, CoresAsText) {
  EXPECT_EQ(format_cores(Cores{0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(format_cores(Cores{5}), "5");
  EXPECT_EQ(format_cores(Cores{1, 3, 4}), "1,3-4");
}

}  // namespace
}  // namespace pipefill
