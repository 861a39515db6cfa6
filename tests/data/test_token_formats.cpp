// Byte files, llm.c shards and nanoGPT files: what is read, and every way in which they can be damaged.
#include "data/token_formats.hpp"

#include "data_files.hpp"

namespace pipefill {
namespace {

using namespace test;

class Formats : public DataFiles {
 protected:
  /// An llm.c header, its 1024 bytes.
  static std::string llmc_header(std::int32_t magic, std::int32_t version, std::int32_t count) {
    std::string header = bytes_of(magic, version, count);
    header.resize(1024);
    return header;
  }
};

std::vector<std::int32_t> all_tokens(const TokenFile& file, int vocab) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.tokens()));
  file.read(0, tokens, vocab);
  return tokens;
}

TEST_F(Formats, llmc_version_1_as_the_gpt2_scripts_write_it) {
  const LlmcShard shard = open_llmc(kFormats + "llmc_v1_10tok.bin");
  EXPECT_EQ(shard.vocab, 50257);
  EXPECT_EQ(all_tokens(shard.tokens, shard.vocab), (std::vector<std::int32_t>{50256, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(Formats, llmc_version_7_has_wider_tokens) {
  write("llama.bin", std::vector<std::uint32_t>{128000, 5, 128255}, llmc_header(20240801, 7, 3));
  const LlmcShard shard = open_llmc(path("llama.bin"));
  EXPECT_EQ(shard.vocab, 128256);
  EXPECT_EQ(all_tokens(shard.tokens, shard.vocab), (std::vector<std::int32_t>{128000, 5, 128255}));
}

TEST_F(Formats, llmc_damage_is_named_with_both_numbers) {
  const auto damaged = [](const std::string& file, const std::vector<std::string>& parts) {
    expect_error(ExitCode::damaged_data, parts, [&] { (void)open_llmc(file); });
  };
  damaged(kFormats + "llmc_truncated.bin", {"llmc_truncated.bin", "1043 bytes", "10 tokens", "1044 bytes"});
  damaged(kFormats + "llmc_bad_magic.bin", {"magic 20240521", "20240520", "data.source"});
  damaged(write("short", std::vector<std::int32_t>(255)), {"1020 bytes", "1024"});
  damaged(write<std::uint16_t>("mixed", {1, 2}, llmc_header(20240520, 7, 2)), {"version 7"});
  damaged(write<std::uint32_t>("mixed7", {1, 2}, llmc_header(20240801, 1, 2)), {"magic 20240801", "version 1"});
  damaged(write<std::uint16_t>("long", {1, 2, 3}, llmc_header(20240520, 1, 2)), {"1030 bytes", "1028 bytes"});
  damaged(write<std::uint16_t>("negative", {1, 2}, llmc_header(20240520, 1, -2)), {"-2 tokens"});
  damaged(write<std::uint16_t>("huge", {1, 2}, llmc_header(20240520, 1, 2147483647)), {"4294968318 bytes"});
  expect_error(ExitCode::missing_input, {path("none")}, [&] { (void)open_llmc(path("none")); });
}

TEST_F(Formats, several_shards_make_one_text) {
  write<std::uint16_t>("b.bin", {4, 5, 6, 7}, llmc_header(20240520, 1, 4));
  write<std::uint16_t>("a.bin", {1, 2, 3}, llmc_header(20240520, 1, 3));
  const TokenData data = open_data(describe(TokenFormat::llmc, {path("?.bin")}), 6);
  EXPECT_EQ(data.vocab(), 50257);
  EXPECT_EQ(training_sample(data, 0), (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(Formats, nanogpt) {
  EXPECT_EQ(all_tokens(open_nanogpt(write<std::uint16_t>("train.bin", {0, 1, 65535})), 65536),
            (std::vector<std::int32_t>{0, 1, 65535}));
  expect_error(ExitCode::damaged_data, {"5 bytes", "odd"}, [&] {
    (void)open_nanogpt(write<std::uint8_t>("odd.bin", {0, 1, 2, 3, 4}));
  });
}

TEST_F(Formats, bytes_are_tokens_from_0_to_255) {
  const std::string file = write<std::uint8_t>("text", {0, 127, 128, 255});
  EXPECT_EQ(all_tokens(open_bytes(file), 256), (std::vector<std::int32_t>{0, 127, 128, 255}));
  EXPECT_EQ(open_data(describe(TokenFormat::bytes, {file}), 2).vocab(), 256);
}

TEST_F(Formats, a_directory_or_a_file_of_the_kernel_is_not_a_token_file) {
  expect_error(ExitCode::input_output, {"not a regular file"}, [&] { (void)open_bytes(directory_.path()); });
  expect_error(ExitCode::input_output, {"/proc/cpuinfo", "its size is 0", "copy its content"},
               [&] { (void)open_bytes("/proc/cpuinfo"); });
}

// Report A19: an id of V or more has no embedding. V - 1 is the last that has.
TEST_F(Formats, ids_outside_the_vocabulary_name_file_and_position) {
  DataDescription description =
      describe(TokenFormat::llmc, {write<std::uint16_t>("v.bin", {0, 36, 1, 37, 2}, llmc_header(20240520, 1, 5))});
  description.vocab = 38;
  EXPECT_EQ(training_sample(open_data(description, 4), 0), (std::vector<std::int32_t>{0, 36, 1, 37, 2}));
  description.vocab = 37;
  const TokenData data = open_data(description, 4);
  expect_error(ExitCode::damaged_data, {path("v.bin"), "token 3 ", "byte 1030", "is 37", "0 to 36", "model.vocab"},
               [&] { (void)training_sample(data, 0); });
}

TEST_F(Formats, a_file_that_shrinks_under_the_run_is_an_error_not_a_crash) {
  const std::string file = write_ramp("text", 100);
  const TokenData data = open_data(describe(TokenFormat::bytes, {file}), 99);
  std::filesystem::resize_file(file, 40);
  expect_error(ExitCode::damaged_data, {file, "byte 40", "100 bytes"}, [&] { (void)training_sample(data, 0); });
}

}  // namespace
}  // namespace pipefill
