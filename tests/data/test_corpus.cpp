// Samples of a text: epochs, order, the validation split, borders between files, and too little text.
#include <algorithm>
#include <map>
#include <set>

#include "data_files.hpp"

namespace pipefill {
namespace {

using namespace test;

using Corpora = DataFiles;

/// A text whose tokens tell their own position: token i of 2-byte tokens is i.
class Positions : public DataFiles {
 protected:
  DataDescription text(int count, double validation_fraction) const {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i);
    DataDescription description = describe(TokenFormat::nanogpt, {write("text.bin", values)}, validation_fraction);
    description.vocab = 65536;
    return description;
  }
};

TEST_F(Positions, an_epoch_holds_every_sample_once_and_the_next_has_another_order) {
  const TokenData data = open_data(text(10'001, 0), 10);
  ASSERT_EQ(data.training_samples(), 1000);
  std::vector<std::int32_t> first, second;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const auto sample = training_sample(data, i);
    for (std::size_t t = 0; t + 1 < sample.size(); ++t) ASSERT_EQ(sample[t + 1], sample[t] + 1);
    first.push_back(sample.front());
    second.push_back(training_sample(data, 1000 + i).front());
  }
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::ranges::is_sorted(first));
  std::ranges::sort(first);
  std::ranges::sort(second);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(first[i], static_cast<std::int32_t>(10 * i));
  EXPECT_EQ(first, second);
}

TEST_F(Positions, the_order_depends_on_the_seed_and_on_nothing_else) {
  DataDescription description = text(2001, 0);
  const TokenData data = open_data(description, 10), again = open_data(description, 10);
  description.seed = 2;
  const TokenData other = open_data(description, 10);
  int differ = 0;
  // Read backwards in one of them: no read leaves a trace in the next.
  for (std::int64_t i = 499; i >= 0; --i) (void)training_sample(again, i);
  for (std::int64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(training_sample(data, i), training_sample(again, i));
    differ += training_sample(data, i) != training_sample(other, i);
  }
  EXPECT_GT(differ, 450);
}

// Report A8: resume needs the counter alone. Report A7: whoever asks for a sample, as first or as last stage, as any
// replica, gets the same one.
TEST_F(Positions, any_division_over_ranks_reads_the_same_batch) {
  const TokenData data = open_data(text(5001, 0.1), 8);
  const auto batch_starts = [&](std::int64_t step, std::int64_t replicas, std::int64_t per_replica) {
    std::vector<std::int32_t> starts;
    for (std::int64_t r = 0; r < replicas; ++r)
      for (std::int64_t b = 0; b < per_replica; ++b)
        starts.push_back(training_sample(data, (step * replicas + r) * per_replica + b).front());
    return starts;
  };
  for (std::int64_t step = 0; step < 50; ++step) {
    EXPECT_EQ(batch_starts(step, 1, 24), batch_starts(step, 2, 12));
    EXPECT_EQ(batch_starts(step, 1, 24), batch_starts(step, 3, 8));
  }
}

TEST_F(Positions, validation_and_training_share_no_token) {
  for (const int count : {300, 1000, 4096, 20'011})
    for (const double fraction : {0.01, 0.05, 0.3}) {
      const TokenData data = open_data(text(count, fraction), 16);
      std::set<std::int32_t> training;
      for (std::int64_t i = 0; i < *data.training_samples(); ++i)
        for (const std::int32_t token : training_sample(data, i)) training.insert(token);
      const std::int64_t held_out = *data.validation_samples();
      ASSERT_GE(held_out, 1);
      std::map<std::int32_t, int> validation;
      for (std::int64_t i = 0; i < held_out; ++i)
        for (const std::int32_t token : validation_sample(data, i)) {
          EXPECT_FALSE(training.contains(token)) << count << " " << fraction << " " << token;
          ++validation[token];
        }
      for (const auto& [token, times] : validation) EXPECT_LE(times, 2);  // 2: a target and the next one's first input
      EXPECT_NEAR(static_cast<double>(held_out), std::max(1.0, fraction * ((count - 1) / 16)), 0.5);
      // What neither has is less than a sample and a token for each part, at most two samples' worth.
      const auto used = static_cast<double>(training.size() + validation.size());
      EXPECT_GE(used, count - 17.0 * static_cast<double>(std::min(Corpus::kParts, held_out)));
    }
}

TEST_F(Positions, validation_is_spread_over_the_whole_text) {
  const TokenData data = open_data(text(64'000, 0.05), 16);
  std::set<std::int32_t> eighths;
  for (std::int64_t i = 0; i < *data.validation_samples(); ++i) eighths.insert(validation_sample(data, i)[0] / 8000);
  EXPECT_EQ(eighths.size(), 8u);
}

// Report A6: 10.5 batches in the data. The 11th batch is half of the first epoch and half of the second, every sample
// has come once before any comes again, and nothing is dropped.
TEST_F(Positions, a_batch_may_straddle_two_epochs) {
  const TokenData data = open_data(text(42 * 5 + 1, 0), 5);  // 42 samples, batches of 4
  ASSERT_EQ(data.training_samples(), 42);
  std::map<std::int32_t, int> seen;
  for (std::int64_t i = 0; i < 44; ++i) {
    ++seen[training_sample(data, i).front()];
    ASSERT_EQ(seen.size(), static_cast<std::size_t>(std::min<std::int64_t>(i + 1, 42)));
  }
  for (std::int64_t i = 44; i < 84; ++i) ++seen[training_sample(data, i).front()];
  for (const auto& [start, times] : seen) EXPECT_EQ(times, 2) << start;
}

TEST_F(Corpora, a_sample_runs_over_the_borders_of_files) {
  write("a.txt", std::vector<std::uint8_t>{1, 2, 3});
  write("b.txt", std::vector<std::uint8_t>{});
  write("c.txt", std::vector<std::uint8_t>{4});
  write("d.txt", std::vector<std::uint8_t>{5, 6, 7});
  const TokenData data = open_data(describe(TokenFormat::bytes, {path("*.txt")}), 6);
  ASSERT_EQ(data.training_samples(), 1);
  EXPECT_EQ(training_sample(data, 0), (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_NE(data.describe().find("4 files, 7 tokens"), std::string::npos) << data.describe();
}

TEST_F(Corpora, leftover_tokens_are_counted) {
  write_ramp("text", 20);
  const TokenData data = open_data(describe(TokenFormat::bytes, {path("text")}), 8);
  EXPECT_EQ(data.training_samples(), 2);  // tokens 0..16
  EXPECT_NE(data.describe().find("3 tokens at ends not used"), std::string::npos) << data.describe();
}

// The tiny data set (maderix/ANE pull request 17): a size_t underflow there, an error with the numbers here.
TEST_F(Corpora, too_little_text_is_an_error) {
  for (const int count : {0, 1, 2, 8}) {
    write_ramp("text", count);
    expect_error(ExitCode::damaged_data, {path("text"), std::to_string(count) + " tokens in all", "9 tokens"},
                 [&] { open_data(describe(TokenFormat::bytes, {path("text")}), 8); });
  }
  write_ramp("text", 9);
  EXPECT_EQ(open_data(describe(TokenFormat::bytes, {path("text")}), 8).training_samples(), 1);
  for (const int count : {9, 17})
    expect_error(ExitCode::damaged_data, {"validation_fraction"}, [&] {
      write_ramp("text", count);
      open_data(describe(TokenFormat::bytes, {path("text")}, 0.05), 8);
    });
  write_ramp("text", 18);  // one of each: 2 (8 + 1)
  const TokenData data = open_data(describe(TokenFormat::bytes, {path("text")}, 0.05), 8);
  EXPECT_EQ(data.training_samples(), 1);
  EXPECT_EQ(data.validation_samples(), 1);
}

TEST_F(Corpora, descriptions_that_make_no_sense_are_refused) {
  write_ramp("text", 100);
  const auto refused = [](const std::string& part, const DataDescription& description, std::int64_t context = 8) {
    expect_error(ExitCode::deck, {part}, [&] { open_data(description, context); });
  };
  const DataDescription good = describe(TokenFormat::bytes, {path("text")});
  for (const double fraction : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    DataDescription bad = good;
    bad.validation_fraction = fraction;
    refused("validation_fraction", bad);
  }
  refused("model.context", good, 0);
  refused("data.files", describe(TokenFormat::bytes, {}));
  refused("data.files", describe(TokenFormat::synthetic, {path("text")}));
}

}  // namespace
}  // namespace pipefill
