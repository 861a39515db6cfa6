// Softmax of the candidates in double, and the place of one uniform number in its running sum.
#include "fill_jobs/sample_token.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/random.hpp"

namespace pipefill {

std::int32_t sample_token(std::span<const float> logits, const Sampling& how, std::int64_t sequence,
                          std::int64_t position) {
  if (how.temperature == 0)
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<std::int32_t> candidates(logits.size());
  std::iota(candidates.begin(), candidates.end(), 0);
  const auto logit = [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; };
  if (how.top_k > 0 && how.top_k < static_cast<std::int64_t>(candidates.size())) {
    const auto likelier = [&](std::int32_t a, std::int32_t b) {
      return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
    };
    std::partial_sort(candidates.begin(), candidates.begin() + how.top_k, candidates.end(), likelier);
    candidates.resize(static_cast<std::size_t>(how.top_k));
  }
  double most = -INFINITY;
  for (const std::int32_t token : candidates) most = std::max(most, static_cast<double>(logit(token)));
  std::vector<double> running;
  double sum = 0;
  for (const std::int32_t token : candidates)
    running.push_back(sum += std::exp((static_cast<double>(logit(token)) - most) / how.temperature));
  RandomStream random(
      derive_key(derive_key(how.seed, static_cast<std::uint64_t>(sequence)), static_cast<std::uint64_t>(position)));
  const double place = static_cast<double>(random.next() >> 11) * 0x1p-53 * sum;
  const auto found = std::upper_bound(running.begin(), running.end() - 1, place);
  return candidates[static_cast<std::size_t>(found - running.begin())];
}

}  // namespace pipefill
