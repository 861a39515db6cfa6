// How a kernel spreads its work over the context's threads: one contiguous part each, cut the same way every time.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

#include "kernels/context.hpp"

namespace pipefill {

/// Elements of simple work below which waking a team costs more than it gives.
inline constexpr std::int64_t kSerialWork = 16384;

/// Calls part(begin, end) for disjoint parts of [0, n) cut at multiples of `grain`. `work` is the cost of one item in
/// simple element operations. What a part throws comes out of this call. The team is whole or absent: a shrinking team
/// would end libgomp's threads.
template <class Part>
void parallel_parts(const KernelContext& ctx, std::int64_t n, std::int64_t grain, std::int64_t work, const Part& part) {
  if (n <= 0) return;
  const std::int64_t pieces = (n + grain - 1) / grain;
  if (ctx.threads() == 1 || pieces == 1 || n * work < kSerialWork) {
    part(std::int64_t{0}, n);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel num_threads(ctx.threads())
  {
    const std::int64_t me = omp_get_thread_num();
    const std::int64_t team = omp_get_num_threads();
    const std::int64_t begin = std::min(n, pieces * me / team * grain);
    const std::int64_t end = std::min(n, pieces * (me + 1) / team * grain);
    try {
      if (begin < end) part(begin, end);
    } catch (...) {
#pragma omp critical(pipefill_parallel_parts)
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace pipefill
