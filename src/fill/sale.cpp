#include "fill/sale.hpp"

#include <algorithm>

#include "base/contract.hpp"

namespace pipefill {

// A chunk that ends at E runs in [E - chunk, E). Its expected overrun is, over the lengths above E - chunk,
//   sum of (E - L) over those below E / number of all,
// which grows with E between two events: E passes a length (one more below), E - chunk passes one (one less in all).
Nanoseconds sell_until(std::span<const Nanoseconds> lengths, Nanoseconds elapsed, Nanoseconds chunk,
                       double overrun_share) {
  PF_EXPECT(!lengths.empty() && lengths.front() > elapsed && chunk > Nanoseconds{0});
  PF_EXPECT(overrun_share >= 0 && overrun_share < 1);
  const auto time = [&](std::size_t i) { return static_cast<double>(lengths[i].count()); };
  const double worth = overrun_share * static_cast<double>(chunk.count());
  const double step = static_cast<double>(chunk.count());
  double end = static_cast<double>((elapsed + chunk).count());
  std::size_t passed = 0;  // lengths not above the chunk's start
  std::size_t below = 0;   // lengths below its end
  double sum = 0;          // of those in between
  const auto overrun = [&](double at) { return static_cast<double>(below - passed) * at - sum; };
  const auto limit = [&] { return worth * static_cast<double>(lengths.size() - passed); };

  while (below < lengths.size() && time(below) < end) sum += time(below++);
  if (overrun(end) > limit()) return elapsed;
  while (passed < lengths.size()) {
    const double leaves = time(passed) + step;
    const bool enters = below < lengths.size() && time(below) <= leaves;
    const double next = std::max(end, enters ? time(below) : leaves);
    if (overrun(next) > limit())
      return Nanoseconds{static_cast<std::int64_t>((limit() + sum) / static_cast<double>(below - passed))};
    end = next;
    if (enters)
      sum += time(below++);
    else
      sum -= time(passed++);
  }
  return Nanoseconds{
      static_cast<std::int64_t>(end)};  // not reached: the last length alone ends it, its share being < 1
}

}  // namespace pipefill
