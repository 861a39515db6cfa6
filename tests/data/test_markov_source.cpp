// The synthetic source: what it draws agrees with the matrix it states, and the entropy rate with both.
#include "data/markov_source.hpp"

#include <cmath>
#include <set>

#include "data_files.hpp"

namespace pipefill {
namespace {

using namespace test;
using Stream = MarkovSource::Stream;

TEST(MarkovSource, stationary_distribution_is_a_fixed_point_of_a_stochastic_matrix) {
  for (const int vocab : {2, 17, 64, 300}) {
    const MarkovSource source(vocab, 5);
    double total = 0;
    for (int to = 0; to < vocab; ++to) {
      double image = 0, row = 0;
      for (int other = 0; other < vocab; ++other) {
        image += source.stationary()[static_cast<std::size_t>(other)] * source.probability(other, to);
        row += source.probability(to, other);
        EXPECT_GT(source.probability(to, other), 0);
      }
      EXPECT_NEAR(row, 1, 1e-12);
      EXPECT_NEAR(image, source.stationary()[static_cast<std::size_t>(to)], 1e-13);
      total += image;
    }
    EXPECT_NEAR(total, 1, 1e-12);
    EXPECT_GT(source.entropy_rate(), 0);
    EXPECT_LT(source.entropy_rate(), std::log(vocab));
  }
}

TEST(MarkovSource, two_symbols_by_hand) {
  // pi = (b, a) / (a + b) for the chain with p(1|0) = a, p(0|1) = b; H is the mean of the two binary entropies.
  const MarkovSource source(2, 9);
  const double a = source.probability(0, 1), b = source.probability(1, 0);
  const auto entropy = [](double p) { return -p * std::log(p) - (1 - p) * std::log(1 - p); };
  EXPECT_NEAR(source.stationary()[0], b / (a + b), 1e-14);
  EXPECT_NEAR(source.entropy_rate(), (b * entropy(a) + a * entropy(b)) / (a + b), 1e-14);
}

// The conditional frequencies of 2.6 million fresh pairs against the matrix, and the loss of the perfect model (which
// predicts with the matrix) against the entropy rate, at the first position as well as over all of them.
TEST(MarkovSource, samples_have_the_stated_statistics) {
  constexpr int kVocab = 16, kContext = 64, kSamples = 40'000;
  const MarkovSource source(kVocab, 11);
  std::vector<std::vector<double>> count(kVocab, std::vector<double>(kVocab));
  std::vector<double> first(kVocab);
  std::vector<std::int32_t> tokens(kContext + 1);
  double sum = 0, squares = 0, sum_at_first = 0, squares_at_first = 0;
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    source.read(Stream::training, sample, tokens);
    ++first[static_cast<std::size_t>(tokens[0])];
    for (std::size_t t = 0; t < kContext; ++t) {
      ++count[static_cast<std::size_t>(tokens[t])][static_cast<std::size_t>(tokens[t + 1])];
      const double loss = -std::log(source.probability(tokens[t], tokens[t + 1]));
      sum += loss, squares += loss * loss;
      if (t == 0) sum_at_first += loss, squares_at_first += loss * loss;
    }
  }
  double chi_squared = 0, chi_squared_first = 0;
  for (int from = 0; from < kVocab; ++from) {
    const auto i = static_cast<std::size_t>(from);
    double total = 0;
    for (const double c : count[i]) total += c;
    for (int to = 0; to < kVocab; ++to) {
      const double expected = total * source.probability(from, to);
      chi_squared += std::pow(count[i][static_cast<std::size_t>(to)] - expected, 2) / expected;
    }
    const double expected = kSamples * source.stationary()[i];
    chi_squared_first += std::pow(first[i] - expected, 2) / expected;
  }
  // 16 * 15 and 15 degrees of freedom; the bounds are at p = 1e-4.
  EXPECT_LT(chi_squared, 327);
  EXPECT_GT(chi_squared, 165);
  EXPECT_LT(chi_squared_first, 44);

  const auto within_three_errors = [&](double total, double total_squares, double n) {
    const double mean = total / n, error = std::sqrt((total_squares / n - mean * mean) / n);
    EXPECT_NEAR(mean, source.entropy_rate(), 3 * error);
    EXPECT_LT(error, 0.01 * mean);
  };
  within_three_errors(sum, squares, 1.0 * kSamples * kContext);
  within_three_errors(sum_at_first, squares_at_first, kSamples);
}

TEST(MarkovSource, never_repeats) {
  const TokenData data = open_data({}, 32);
  std::set<std::vector<std::int32_t>> seen;
  for (std::int64_t index = 0; index < 20'000; ++index) {
    ASSERT_TRUE(seen.insert(training_sample(data, index)).second) << index;
    ASSERT_TRUE(seen.insert(validation_sample(data, index)).second) << index;
  }
  // Far along the stream too, where a narrow counter would have wrapped.
  for (const std::int64_t index : {std::int64_t{1} << 32, std::int64_t{1} << 40, INT64_MAX})
    ASSERT_TRUE(seen.insert(training_sample(data, index)).second) << index;
}

TEST(MarkovSource, is_a_function_of_seed_stream_and_index) {
  const MarkovSource source(64, 1), same(64, 1), other(64, 2);
  std::vector<std::int32_t> a(65), b(65), c(65);
  same.read(Stream::validation, 4, b);
  source.read(Stream::training, 12, a);
  same.read(Stream::training, 12, b);
  other.read(Stream::training, 12, c);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  // A longer context only continues the sample.
  std::vector<std::int32_t> longer(129);
  source.read(Stream::training, 12, longer);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), longer.begin()));
  EXPECT_NE(source.entropy_rate(), other.entropy_rate());
}

TEST(MarkovSource, as_token_data) {
  const TokenData data = open_data({.files = {}, .vocab = 32}, 8);
  EXPECT_EQ(data.vocab(), 32);
  EXPECT_EQ(data.training_samples(), std::nullopt);
  EXPECT_EQ(data.validation_samples(), std::nullopt);
  ASSERT_TRUE(data.entropy_rate().has_value());
  EXPECT_EQ(*data.entropy_rate(), MarkovSource(32, 1).entropy_rate());
  for (const int vocab : {1, MarkovSource::kMaximumVocab + 1})
    expect_error(ExitCode::deck, {std::to_string(vocab) + " symbols", "data.vocab"},
                 [&] { open_data({.files = {}, .vocab = vocab}, 8); });
}

}  // namespace
}  // namespace pipefill
