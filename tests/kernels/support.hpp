// What the kernel tests share: aligned buffers with seeded values, comparison against the oracle, finite differences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "kernels/bf16.hpp"
#include "kernels/cast/cast.hpp"
#include "kernels/context.hpp"

namespace pipefill::test {

template <class T>
struct Aligned64 {
  using value_type = T;
  Aligned64() = default;
  template <class U>
  Aligned64(const Aligned64<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t{64}); }
  friend bool operator==(const Aligned64&, const Aligned64&) { return true; }
};

template <class T>
using Aligned = std::vector<T, Aligned64<T>>;
using Floats = Aligned<float>;

/// Normal values, the same for the same seed.
inline Floats random_floats(std::int64_t n, unsigned seed, float deviation = 1.0F, float mean = 0.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(mean, deviation);
  Floats x(static_cast<std::size_t>(n));
  for (float& v : x) v = normal(generator);
  return x;
}

inline Aligned<std::int32_t> random_ids(std::int64_t n, int below, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<std::int32_t> uniform(0, below - 1);
  Aligned<std::int32_t> x(static_cast<std::size_t>(n));
  for (auto& v : x) v = uniform(generator);
  return x;
}

inline Aligned<Bf16> rounded(const Floats& x) {
  Aligned<Bf16> y(x.size());
  reference::cast(y.data(), x.data(), static_cast<std::int64_t>(x.size()));
  return y;
}

/// |a - b| <= tolerance * max(1, |b|) for every element, NaN nowhere.
template <class A, class B>
void expect_close(const A& actual, const B& expected, double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i];
    const double b = expected[i];
    const double error = std::abs(a - b) / std::max(1.0, std::abs(b));
    if (!(error <= worst)) {  // also true for NaN
      worst = error;
      where = i;
      if (std::isnan(error)) break;
    }
  }
  EXPECT_LE(worst, tolerance) << what << ": element " << where << " of " << actual.size() << " is " << actual[where]
                              << ", expected " << expected[where];
}

template <class A>
void expect_same_bits(const A& a, const A& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_EQ(0, std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0]))) << what;
}

/// sum of x * weights: a scalar loss whose gradient with respect to x is `weights`.
inline double weighted_sum(const Floats& x, const Floats& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(x[i]) * weights[i];
  return sum;
}

/// Central differences of loss() with respect to a spread of elements of x, against `gradient`.
template <class Loss>
void expect_gradient(Floats& x, const Floats& gradient, const Loss& loss, double step, double tolerance,
                     const char* what) {
  const std::size_t stride = std::max<std::size_t>(1, x.size() / 23);
  double largest = 0;
  for (const float g : gradient) largest = std::max(largest, std::abs(static_cast<double>(g)));
  for (std::size_t i = 0; i < x.size(); i += stride) {
    const float before = x[i];
    x[i] = static_cast<float>(before + step);
    const double up_at = x[i];
    const double up = loss();
    x[i] = static_cast<float>(before - step);
    const double down_at = x[i];
    const double down = loss();
    x[i] = before;
    EXPECT_NEAR((up - down) / (up_at - down_at), gradient[i], tolerance * std::max(largest, 1e-3))
        << what << ", element " << i;
  }
}

inline const int kThreadCounts[] = {1, 2, 3};

}  // namespace pipefill::test
