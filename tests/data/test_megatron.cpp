// Megatron's .bin/.idx: the sample, all token types, every number of the index that can be wrong, and 5 GiB.
#include "data/token_formats.hpp"
#include "data_files.hpp"

namespace pipefill {
namespace {

using namespace test;

struct Index {
  std::uint8_t code = 8;
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> pointers, documents;
  std::uint64_t version = 1;
  std::string magic{"MMIDIDX\0\0", 9};

  std::string bytes() const {
    std::string text = magic + bytes_of(version, code, std::uint64_t{lengths.size()}, std::uint64_t{documents.size()});
    for (const auto v : lengths) text += bytes_of(v);
    for (const auto v : pointers) text += bytes_of(v);
    for (const auto v : documents) text += bytes_of(v);
    return text;
  }
};

class Megatron : public DataFiles {
 protected:
  void write_index(const std::string& bytes) const { write("d.idx", std::vector<char>(bytes.begin(), bytes.end())); }

  void expect_damaged(const Index& index, const std::vector<std::string>& parts) const {
    write_index(index.bytes());
    expect_error(ExitCode::damaged_data, parts, [&] { (void)open_megatron(path("d")); });
  }

  Index good_{.lengths = {4, 2, 6}, .pointers = {0, 8, 12}, .documents = {0, 1, 2, 3}};
};

TEST_F(Megatron, the_sample_of_three_documents) {
  DataDescription description = describe(TokenFormat::megatron, {kFormats + "mmidx_u16_3docs"});
  const std::vector<std::int32_t> expected{10, 11, 12, 50256, 20, 50256, 30, 31, 32, 33, 34, 50256};
  for (const char* name : {"", ".idx", ".bin", "*"}) {
    description.files = {kFormats + "mmidx_u16_3docs" + name};
    const TokenData data = open_data(description, 11);
    EXPECT_EQ(training_sample(data, 0), expected) << name;
    EXPECT_EQ(data.vocab(), 50257);
  }
  EXPECT_EQ(good_.bytes().size(), 102u);  // our own writer makes the same file
  std::ifstream file(kFormats + "mmidx_u16_3docs.idx", std::ios::binary);
  EXPECT_EQ(good_.bytes(), std::string(std::istreambuf_iterator<char>(file), {}));
}

TEST_F(Megatron, every_type_that_can_hold_tokens) {
  const auto check = [&](int code, auto zero) {
    using T = decltype(zero);
    write<T>("d.bin", {T{1}, T{2}, T{127}});
    const auto width = static_cast<std::int64_t>(sizeof(T));
    write_index(Index{
        .code = static_cast<std::uint8_t>(code), .lengths = {2, 1}, .pointers = {0, 2 * width}, .documents = {0, 2}}
                    .bytes());
    std::vector<std::int32_t> tokens(3);
    open_megatron(path("d")).read(0, tokens, 128);
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{1, 2, 127})) << code;
  };
  check(1, std::uint8_t{});
  check(2, std::int8_t{});
  check(3, std::int16_t{});
  check(4, std::int32_t{});
  check(5, std::int64_t{});
  check(8, std::uint16_t{});
  for (const int code : {0, 6, 7, 9}) {
    Index index = good_;
    index.code = static_cast<std::uint8_t>(code);
    expect_damaged(index, {"dtype code " + std::to_string(code)});
  }
}

TEST_F(Megatron, negative_and_wide_ids_are_refused_not_wrapped) {
  write<std::int64_t>("d.bin", {5, (std::int64_t{1} << 32) + 1, -1});
  write_index(Index{.code = 5, .lengths = {3}, .pointers = {0}, .documents = {0, 1}}.bytes());
  const TokenFile file = open_megatron(path("d"));
  std::vector<std::int32_t> tokens(1);
  expect_error(ExitCode::damaged_data, {path("d.bin"), "token 1 (byte 8)", "4294967297"},
               [&] { file.read(1, tokens, 10); });
  expect_error(ExitCode::damaged_data, {"token 2 (byte 16)", "-1"}, [&] { file.read(2, tokens, 10); });
}

TEST_F(Megatron, empty_documents_and_sequences_are_legal) {
  write<std::uint16_t>("d.bin", {7, 8});
  write_index(Index{.lengths = {0, 2, 0}, .pointers = {0, 0, 4}, .documents = {0, 0, 3, 3}}.bytes());
  EXPECT_EQ(open_megatron(path("d")).tokens(), 2);
  // Multimodal: one more byte a sequence.
  write_index(Index{.lengths = {0, 2, 0}, .pointers = {0, 0, 4}, .documents = {0, 0, 3, 3}}.bytes() +
              std::string(3, '\0'));
  EXPECT_EQ(open_megatron(path("d")).tokens(), 2);
}

// Report A12: pointers that are negative, decrease or leave the file are errors that name the entry.
TEST_F(Megatron, wrong_numbers_name_their_entry) {
  write("d.bin", std::vector<std::uint16_t>(12));
  write_index(good_.bytes());
  EXPECT_EQ(open_megatron(path("d")).tokens(), 12);

  Index index = good_;
  index.pointers = {0, 8, -12};
  expect_damaged(index, {"pointer of sequence 2 is -12", "byte 12"});
  index.pointers = {0, 12, 8};
  expect_damaged(index, {"pointer of sequence 1 is 12", "byte 8"});
  index = good_;
  index.lengths[2] = 7;
  expect_damaged(index, {"sequence 2 is 7 tokens", "from byte 12", "24 bytes"});
  index = good_;
  index.lengths[0] = -4;
  expect_damaged(index, {"sequence 0 has a negative length, -4"});
  index = good_;
  index.documents = {0, 2, 1, 3};
  expect_damaged(index, {"entry 2 of 4", "is 1"});
  index.documents = {0, 1, -2, 3};
  expect_damaged(index, {"entry 2 of 4", "is -2"});
  index.documents = {1, 1, 2, 3};
  expect_damaged(index, {"entry 0 of 4"});
  index.documents = {0, 1, 2, 2};
  expect_damaged(index, {"entry 3 of 4", "is 2", "sequences, 3"});
  index.documents = {0, 1, 9, 3};
  expect_damaged(index, {"entry 2 of 4", "is 9"});
  index = good_;
  index.version = 2;
  expect_damaged(index, {"version 2"});
  index = good_;
  index.magic[0] = 'N';
  expect_damaged(index, {"MMIDIDX"});
}

TEST_F(Megatron, sizes_that_disagree_with_the_header) {
  write("d.bin", std::vector<std::uint16_t>(12));
  const std::string good = good_.bytes();
  const auto damaged = [&](const std::string& bytes, const std::string& part) {
    write_index(bytes);
    expect_error(ExitCode::damaged_data, {part}, [&] { (void)open_megatron(path("d")); });
  };
  damaged(good.substr(0, 101), "101 bytes");
  damaged(good + "x", "103 bytes");
  damaged(good.substr(0, 33), "33 bytes");
  // Counts so large that 12*S + 8*D wraps around to the file's real size must not pass, nor be allocated.
  for (const std::uint64_t sequences :
       {std::uint64_t{1} << 62, ~std::uint64_t{0}, std::uint64_t{3} + (std::uint64_t{1} << 62)}) {
    std::string bytes = good;
    bytes.replace(18, 8, bytes_of(sequences));
    damaged(bytes, std::to_string(sequences) + " sequences");
  }
  std::string bytes = good;
  bytes.replace(26, 8, bytes_of(std::uint64_t{0}));
  damaged(bytes, "0 document entries");

  write_index(good);
  std::filesystem::remove(path("d.bin"));
  expect_error(ExitCode::missing_input, {path("d.bin")}, [&] { (void)open_megatron(path("d")); });
}

// Report A12: 5 GiB, sparse, with pointers beyond 2^32.
TEST_F(Megatron, reads_beyond_four_gibibytes) {
  const std::int64_t gib = std::int64_t{1} << 30;
  write("d.bin", std::vector<std::uint16_t>{});
  std::filesystem::resize_file(path("d.bin"), static_cast<std::uintmax_t>(5 * gib));
  {
    std::fstream file(path("d.bin"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5 * gib - 4);
    file << bytes_of(std::uint16_t{41}, std::uint16_t{42});
  }
  const auto sequence = static_cast<std::int32_t>(gib);  // 2 GiB of uint16 each
  write_index(Index{.lengths = {sequence, sequence, sequence / 2 - 2, 2},
                    .pointers = {0, 2 * gib, 4 * gib, 5 * gib - 4},
                    .documents = {0, 1, 4}}
                  .bytes());
  const TokenFile file = open_megatron(path("d"));
  EXPECT_EQ(file.tokens(), 5 * gib / 2);
  std::vector<std::int32_t> tokens(3);
  file.read(file.tokens() - 3, tokens, 50257);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{0, 41, 42}));

  std::vector<TokenFile> files;
  files.push_back(open_megatron(path("d")));
  const Corpus corpus(std::move(files), 50257, 1024, 1, 0);
  EXPECT_EQ(corpus.training_samples(), (5 * gib / 2 - 1) / 1024);
  corpus.read(corpus.tokens() - 3, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{0, 41, 42}));

  // The same index as a 32-bit program would have merged it.
  Index wrapped{.lengths = {sequence, sequence, sequence / 2 - 2, 2},
                .pointers = {0, 2 * gib, 0, gib - 4},
                .documents = {0, 1, 4}};
  expect_damaged(wrapped, {"pointer of sequence 2 is 0", "byte 4294967296"});
}

}  // namespace
}  // namespace pipefill
