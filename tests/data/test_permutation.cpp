// The computed permutation: a bijection for every size, different for every key, and not close to the identity.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "data/permutation.hpp"

namespace pipefill {
namespace {

TEST(Permutation, is_a_bijection_for_every_small_size) {
  for (std::int64_t size = 1; size <= 300; ++size) {
    const Permutation order(size, 7);
    std::vector<int> hits(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t to = order(i);
      ASSERT_GE(to, 0);
      ASSERT_LT(to, size);
      ++hits[static_cast<std::size_t>(to)];
    }
    for (const int h : hits) ASSERT_EQ(h, 1) << "size " << size;
  }
}

TEST(Permutation, is_a_bijection_around_powers_of_four) {
  for (const std::int64_t size : {65'535, 65'536, 65'537, 100'003}) {
    const Permutation order(size, 1);
    std::vector<bool> hit(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) hit[static_cast<std::size_t>(order(i))] = true;
    for (std::int64_t i = 0; i < size; ++i) ASSERT_TRUE(hit[static_cast<std::size_t>(i)]) << size << " " << i;
  }
}

TEST(Permutation, reaches_sizes_beyond_32_bits) {
  const std::int64_t size = (std::int64_t{1} << 40) + 12'345;
  const Permutation order(size, 3);
  std::set<std::int64_t> images;
  std::int64_t above_32_bits = 0;
  for (std::int64_t i = 0; i < 10'000; ++i) {
    const std::int64_t to = order(size - 1 - i);
    ASSERT_TRUE(to >= 0 && to < size);
    images.insert(to);
    above_32_bits += to >> 32 != 0;
  }
  EXPECT_EQ(images.size(), 10'000u);
  EXPECT_GT(above_32_bits, 9'000);
}

TEST(Permutation, mixes_like_a_random_one) {
  // The number of fixed points of a random permutation is Poisson(1), and consecutive inputs land far apart: the mean
  // distance of two uniform points is size / 3, with standard deviation size / sqrt(18 n) over n pairs.
  const std::int64_t size = 50'000;
  for (std::uint64_t key = 0; key < 5; ++key) {
    const Permutation order(size, key);
    int fixed = 0;
    double distance = 0;
    for (std::int64_t i = 0; i + 1 < size; ++i) {
      fixed += order(i) == i;
      distance += std::abs(static_cast<double>(order(i + 1) - order(i)));
    }
    EXPECT_LT(fixed, 10);
    EXPECT_NEAR(distance / static_cast<double>(size - 1) / static_cast<double>(size), 1.0 / 3, 0.006);
  }
}

TEST(Permutation, every_first_element_is_equally_likely_over_keys) {
  std::vector<int> hits(10);
  for (std::uint64_t key = 0; key < 10'000; ++key) ++hits[static_cast<std::size_t>(Permutation(10, key)(0))];
  double chi_squared = 0;
  for (const int h : hits) chi_squared += (h - 1000.0) * (h - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 27.9);  // 9 degrees of freedom, p = 0.001
}

}  // namespace
}  // namespace pipefill
