// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <span>

namespace pipefill {

struct Sampling {
  double temperature = 1;  ///< 0: the likeliest token, of equals the first
  std::int64_t top_k = 0;  ///< only among so many likeliest; 0: all
  std::uint64_t seed = 1;
};

/// A pure function: the random number belongs to (seed, sequence, position).
std::int32_t sample_token(std::span<const float> logits, const Sampling& how, std::int64_t sequence,
                          std::int64_t position);

}  // namespace pipefill
