// The transition matrix, its stationary distribution and entropy rate, and the drawing of samples.
#include "data/markov_source.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/contract.hpp"
#include "base/error.hpp"
#include "base/random.hpp"

namespace pipefill {

namespace {

constexpr std::uint64_t kMatrixStream = 0;  // MarkovSource::Stream names the others
constexpr double kFirstResolution = 0x1p40;

std::int32_t draw(std::span<const std::uint64_t> cumulative, RandomStream& random) {
  const std::uint64_t value = random.below(cumulative.back());
  return static_cast<std::int32_t>(std::ranges::upper_bound(cumulative, value) - cumulative.begin());
}

}  // namespace

MarkovSource::MarkovSource(int vocab, std::uint64_t seed) : vocab_(vocab), seed_(seed) {
  if (vocab < 2 || vocab > kMaximumVocab)
    throw DeckError(
        fmt::format("the synthetic source has {} symbols; it needs 2 to {}: set data.vocab", vocab, kMaximumVocab));
  const auto size = static_cast<std::size_t>(vocab);
  RandomStream random(derive_key(seed, kMatrixStream));
  cumulative_.resize(size * size);
  for (std::size_t from = 0; from < size; ++from) {
    std::uint64_t sum = 0;
    for (std::size_t to = 0; to < size; ++to)
      cumulative_[from * size + to] = sum += std::uint64_t{1} << std::popcount(random.next() >> 32);
  }
  compute_stationary();

  for (int from = 0; from < vocab; ++from)
    for (int to = 0; to < vocab; ++to)
      entropy_rate_ -=
          stationary_[static_cast<std::size_t>(from)] * probability(from, to) * std::log(probability(from, to));

  first_.resize(size);
  std::uint64_t sum = 0;
  for (std::size_t symbol = 0; symbol < size; ++symbol)
    first_[symbol] = sum += static_cast<std::uint64_t>(std::llround(stationary_[symbol] * kFirstResolution));
}

std::span<const std::uint64_t> MarkovSource::row(int from) const {
  const auto size = static_cast<std::size_t>(vocab_);
  return {cumulative_.data() + static_cast<std::size_t>(from) * size, size};
}

double MarkovSource::probability(int from, int to) const {
  const auto sums = row(from);
  const auto column = static_cast<std::size_t>(to);
  const std::uint64_t weight = sums[column] - (to == 0 ? 0 : sums[column - 1]);
  return static_cast<double>(weight) / static_cast<double>(sums.back());
}

// Power iteration; every entry of the matrix is positive, so it converges geometrically from any start
// (Perron-Frobenius), here in a few dozen rounds.
void MarkovSource::compute_stationary() {
  constexpr int kRounds = 10'000;
  constexpr double kTolerance = 1e-15;
  const auto size = static_cast<std::size_t>(vocab_);
  stationary_.assign(size, 1.0 / vocab_);
  std::vector<double> next(size);
  double change = 1;
  for (int round = 0; round < kRounds && change > kTolerance; ++round) {
    std::ranges::fill(next, 0.0);
    double total = 0;
    for (int from = 0; from < vocab_; ++from)
      for (int to = 0; to < vocab_; ++to)
        next[static_cast<std::size_t>(to)] += stationary_[static_cast<std::size_t>(from)] * probability(from, to);
    for (const double p : next) total += p;
    change = 0;
    for (std::size_t i = 0; i < size; ++i) {
      next[i] /= total;
      change = std::max(change, std::abs(next[i] - stationary_[i]));
    }
    stationary_.swap(next);
  }
  PF_ENSURE(change <= 1e-12);
}

void MarkovSource::read(Stream stream, std::int64_t index, std::span<std::int32_t> tokens) const {
  PF_EXPECT(index >= 0);
  const std::uint64_t key = derive_key(seed_, static_cast<std::uint64_t>(stream));
  RandomStream random(derive_key(key, static_cast<std::uint64_t>(index)));
  std::span<const std::uint64_t> weights = first_;
  for (std::int32_t& token : tokens) {
    token = draw(weights, random);
    weights = row(token);
  }
}

}  // namespace pipefill
