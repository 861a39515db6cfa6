// comm/doorbells: who is rung hears it, also in a process that only reads the memory.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/doorbells.hpp"

namespace pipefill {
namespace {

TEST(Doorbells, OnlyWhoIsRungHearsIt) {
  Doorbells bells({{2}, {5}});
  EXPECT_TRUE(bells.has({2}));
  EXPECT_FALSE(bells.has({3}));
  EXPECT_FALSE(bells.has({-1}));
  bells.ring({5});
  bells.ring({5});
  bells.ring({3});  // of another host: nothing
  EXPECT_EQ(bells.count({5}), 2U);
  EXPECT_EQ(bells.count({2}), 0U);
  EXPECT_EQ(bells.place({5}).word->load(), 2U);
  EXPECT_GE(bells.place({5}).offset - bells.place({2}).offset, 128) << "on cache lines of its own";
}

TEST(Doorbells, AnswersAreCountedApartFromRings) {
  Doorbells bells({{0}, {1}});
  bells.ring({0});
  EXPECT_EQ(bells.answered({0}), 0U);
  bells.answer({0});
  EXPECT_EQ(bells.answered({0}), bells.count({0}));
  EXPECT_EQ(bells.answered({1}), 0U);
}

TEST(Doorbells, AnotherProcessHearsIt) {
  Doorbells bells({{0}, {1}});
  const pid_t child = ::fork();
  if (child == 0) {
    const Doorbell* mine = bells.place({1}).word;
    for (int i = 0; i < 30'000 && mine->load() == 0; ++i) ::usleep(1000);
    ::_exit(mine->load() == 1 ? 0 : 1);
  }
  bells.ring({1});
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace pipefill
