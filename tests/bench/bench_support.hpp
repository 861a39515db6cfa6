// What the kernel benches share: aligned buffers touched once, and the fastest of several repetitions (the machine may
// be busy: the minimum is what the code can do).
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <new>
#include <random>

namespace pipefill::bench {

template <class T>
class Buffer {
 public:
  explicit Buffer(std::int64_t n)
      : data_(static_cast<T*>(::operator new(static_cast<std::size_t>(n) * sizeof(T), std::align_val_t{64}))) {
    std::fill_n(data_.get(), n, T{});
  }
  T* get() const { return data_.get(); }
  operator T*() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<T, Free> data_;
};

inline Buffer<float> random_buffer(std::int64_t n, float deviation = 1.0F) {
  Buffer<float> x(n);
  std::minstd_rand generator(1);
  std::uniform_real_distribution<float> uniform(-1.7F * deviation, 1.7F * deviation);
  for (std::int64_t i = 0; i < n; ++i) x[i] = uniform(generator);
  return x;
}

inline double seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Fastest run of `work`, in seconds: at least twice, and for at least `budget` seconds. One thread is timed by its CPU
/// clock, which a busy machine disturbs little; a team by the wall clock.
template <class Work>
double fastest(const Work& work, int threads, double budget = 0.2) {
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  double best = 1e30;
  const double end = seconds(clock) + budget;
  for (int i = 0; i < 2 || seconds(clock) < end; ++i) {
    const double start = seconds(clock);
    work();
    best = std::min(best, seconds(clock) - start);
  }
  return best;
}

}  // namespace pipefill::bench
