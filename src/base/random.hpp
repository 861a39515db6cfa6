// Counter-based random numbers in integer arithmetic: the same on every machine, and any value of any stream can be
// had without making the ones before it.
#pragma once

#include <cstdint>

namespace pipefill {

/// The finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014,
/// fig. 15, in Stafford's variant 13): a bijection of 64-bit words.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15u;

/// A key for (`key`, `word`): a bijection of `word` for every `key`, so different words never share a key.
constexpr std::uint64_t derive_key(std::uint64_t key, std::uint64_t word) {
  return mix(mix(key + kGoldenGamma) ^ (word * kGoldenGamma));
}

/// SplitMix64: a stream of words.
class RandomStream {
 public:
  explicit constexpr RandomStream(std::uint64_t key) : state_(key) {}

  constexpr std::uint64_t next() { return mix(state_ += kGoldenGamma); }

  /// A uniform number in [0, bound), exactly (Lemire, "Fast random integer generation in an interval", 2019, alg. 5).
  /// bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    Wide product = static_cast<Wide>(next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound)
      for (const std::uint64_t threshold = -bound % bound; static_cast<std::uint64_t>(product) < threshold;)
        product = static_cast<Wide>(next()) * bound;
    return static_cast<std::uint64_t>(product >> 64);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  std::uint64_t state_;
};

}  // namespace pipefill
