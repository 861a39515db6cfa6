// The synthetic source: a seeded Markov chain whose entropy rate is known, so that a run can be judged against the
// loss it must reach.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pipefill {

/// An order-1 chain over `vocab` symbols. Row i of its transition matrix is p(j|i) = w(i,j) / sum_j w(i,j) with
/// integer weights w = 2^(number of ones among 32 fair bits), drawn from the seed: log-weights are nearly normal with
/// standard deviation sqrt(8) ln 2 = 1.96 nats, and every transition is possible. Draws are exact integer arithmetic,
/// equal on all machines.
///
/// What the entropy rate bounds: a sample is T+1 symbols, its first one drawn from the stationary distribution (to
/// within 2^-40), the model sees symbols 0..T-1 and predicts 1..T. Every target has its predecessor in view, and given
/// that, nothing earlier helps: so at *every* position the expected loss of any model is at least H, and exactly H for
/// a model that knows the transition matrix. The mean loss over fresh samples estimates H + KL without bias.
class MarkovSource {
 public:
  /// Training and validation samples come from separate streams of the same chain.
  enum class Stream : std::uint64_t { training = 1, validation = 2 };

  static constexpr int kMaximumVocab = 1024;  ///< the matrix is dense: 8 MiB at this size

  /// 2 <= vocab <= kMaximumVocab, else DeckError.
  MarkovSource(int vocab, std::uint64_t seed);

  int vocab() const { return vocab_; }
  /// H = -sum_i pi(i) sum_j p(j|i) ln p(j|i), in nats per symbol; pi is the stationary distribution of the matrix.
  double entropy_rate() const { return entropy_rate_; }
  /// p(to|from).
  double probability(int from, int to) const;
  std::span<const double> stationary() const { return stationary_; }

  /// Sample `index` of the stream: a pure function of (seed, stream, index). Every index has its own random stream,
  /// so no two samples are the same piece of text and nothing ever repeats.
  void read(Stream stream, std::int64_t index, std::span<std::int32_t> tokens) const;

 private:
  std::span<const std::uint64_t> row(int from) const;
  void compute_stationary();

  int vocab_;
  std::uint64_t seed_;
  std::vector<std::uint64_t> cumulative_;  ///< [vocab, vocab]: running sums of the weights along each row
  std::vector<std::uint64_t> first_;       ///< [vocab]: running sums of the first symbol's weights
  std::vector<double> stationary_;         ///< [vocab]
  double entropy_rate_ = 0;
};

}  // namespace pipefill
