// Texts of more than 2^31 tokens, read at their far end through every source. The files are sparse: they take no room.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <initializer_list>

#include "data/markov_source.hpp"
#include "tests/data/data_files.hpp"

namespace pipefill::test {
namespace {

constexpr std::int64_t kGi = std::int64_t{1} << 30;
constexpr std::int64_t kContext = 1;  // so that there are as many samples as tokens

template <class T>
std::string packed(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) bytes += bytes_of(value);
  return bytes;
}

class FarEnd : public DataFiles {
 protected:
  /// A file of `size` bytes: `head`, zeros, `tail`.
  std::string write_sparse(const std::string& name, std::int64_t size, const std::string& head,
                           const std::string& tail) const {
    std::ofstream(path(name), std::ios::binary) << head;
    std::filesystem::resize_file(path(name), static_cast<std::uintmax_t>(size));
    std::fstream file(path(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(size - static_cast<std::int64_t>(tail.size()));
    file << tail;
    return path(name);
  }

  /// The last tokens are 3, 4, 5, whatever the division into samples; the training order goes up to there too.
  static void expect_far_end(const DataDescription& description, std::int64_t tokens) {
    const TokenData data = open_data(description, kContext);
    ASSERT_EQ(data.training_samples(), tokens - 1);
    std::vector<std::int32_t> sample(2);
    data.read_in_order(tokens - 2, sample);
    EXPECT_EQ(sample, (std::vector<std::int32_t>{4, 5}));
    data.read_in_order(tokens - 3, sample);
    EXPECT_EQ(sample, (std::vector<std::int32_t>{3, 4}));
    for (const std::int64_t index : {std::int64_t{0}, 2 * kGi, tokens - 2, 3 * tokens})
      data.read_training(index, sample);

    DataDescription held_out = description;
    held_out.validation_fraction = 0.5;
    const TokenData divided = open_data(held_out, kContext);
    divided.read_validation(*divided.validation_samples() - 1, sample);
    EXPECT_EQ(sample, (std::vector<std::int32_t>{4, 5}));
  }
};

const std::string kTail8 = packed<std::uint8_t>({3, 4, 5});
const std::string kTail16 = packed<std::uint16_t>({3, 4, 5});

std::string llmc_header(std::int32_t tokens) {
  std::array<std::int32_t, 256> header{20240520, 1, tokens};
  return std::string(reinterpret_cast<const char*>(header.data()), sizeof header);
}

TEST_F(FarEnd, Bytes) {
  expect_far_end(describe(TokenFormat::bytes, {write_sparse("text", 5 * kGi, "", kTail8)}), 5 * kGi);
}

TEST_F(FarEnd, Nanogpt) {
  expect_far_end(describe(TokenFormat::nanogpt, {write_sparse("train.bin", 5 * kGi, "", kTail16)}), 5 * kGi / 2);
}

/// A shard counts its tokens in 32 bits; several of them make more.
TEST_F(FarEnd, LlmcShards) {
  const auto each = static_cast<std::int32_t>(kGi + 5);
  std::vector<std::string> shards;
  for (const char* name : {"a.bin", "b.bin", "c.bin"})
    shards.push_back(write_sparse(name, 1024 + 2 * std::int64_t{each}, llmc_header(each), kTail16));
  expect_far_end(describe(TokenFormat::llmc, shards), 3 * std::int64_t{each});
}

TEST_F(FarEnd, Megatron) {
  const auto each = static_cast<std::int32_t>(kGi);
  write_sparse("d.bin", 3 * 2 * kGi, "", kTail16);
  std::ofstream(path("d.idx"), std::ios::binary)
      << "MMIDIDX" << packed<char>({0, 0}) << packed<std::uint64_t>({1}) << packed<std::uint8_t>({8})
      << packed<std::uint64_t>({3, 2}) << packed<std::int32_t>({each, each, each})
      << packed<std::int64_t>({0, 2 * kGi, 4 * kGi}) << packed<std::int64_t>({0, 3});
  expect_far_end(describe(TokenFormat::megatron, {path("d")}), 3 * kGi);
}

TEST_F(FarEnd, Synthetic) {
  DataDescription description = describe(TokenFormat::synthetic, {});
  description.vocab = 8;
  const TokenData data = open_data(description, 64);
  EXPECT_EQ(training_sample(data, 4 * kGi + 7), training_sample(data, 4 * kGi + 7));
  EXPECT_NE(training_sample(data, 4 * kGi + 7), training_sample(data, 7)) << "the index wrapped at 32 bits";
}

}  // namespace
}  // namespace pipefill::test
