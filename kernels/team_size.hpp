// Libraries that take their number of threads from OpenMP's per-thread setting get it for the length of one call.
#pragma once

#include <omp.h>

namespace pipefill {

class TeamSize {
 public:
  explicit TeamSize(int threads) : before_(omp_get_max_threads()) { set(threads); }
  ~TeamSize() { set(before_); }
  TeamSize(const TeamSize&) = delete;
  TeamSize& operator=(const TeamSize&) = delete;

 private:
  static void set(int threads) {
    if (threads != omp_get_max_threads()) omp_set_num_threads(threads);
  }
  int before_;
};

}  // namespace pipefill
