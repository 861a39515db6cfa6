// Files that are there whole or not at all, hashes, and the checked calls beneath.
#include "storage/atomic_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "storage/hash.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace pipefill;
using pipefill::testing::TemporaryDirectory;

TEST(ReplaceFile, ReplacesAndLeavesNothingBeside) {
  TemporaryDirectory directory;
  const std::string path = directory / "status.json";
  replace_file(path, "one");
  std::ofstream(directory / ".status.json.tmp") << "left by a killed process";
  replace_file(path, "two", Durability::cached);
  EXPECT_EQ(read_file(path, 100), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(ReplaceFile, AFailureLeavesTheOldFile) {
  TemporaryDirectory directory;
  const std::string path = directory / "status.json";
  replace_file(path, "old");
  EXPECT_EXIT(
      {
        std::signal(SIGXFSZ, SIG_IGN);
        rlimit limit{};
        limit.rlim_cur = limit.rlim_max = 1000;
        setrlimit(RLIMIT_FSIZE, &limit);
        try {
          replace_file(path, std::string(5000, 'x'));
        } catch (const FileError& error) {
          std::exit(static_cast<int>(error.code()));
        }
        std::exit(0);
      },
      ::testing::ExitedWithCode(74), "");
  EXPECT_EQ(read_file(path, 100), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(ReadFile, ChecksTheSizeFirst) {
  TemporaryDirectory directory;
  const std::string path = directory / "big";
  std::ofstream(path).close();
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // sparse
  try {
    read_file(path, 1000);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ExitCode::damaged_data);
  }
  EXPECT_THROW(read_file(directory.path(), 1000), FileError) << "a directory";
}

TEST(CreateExclusive, RefusesFilesAndLinks) {
  TemporaryDirectory directory;
  std::filesystem::create_symlink(directory / "target", directory / "link");
  EXPECT_THROW(create_exclusive(directory / "link"), FileError);
  EXPECT_FALSE(std::filesystem::exists(directory / "target"));
}

TEST(Hash, KnownValueAndEquivalentForms) {
  // XXH3-128 of the empty input, from the xxHash specification.
  EXPECT_EQ(hash_text(""), "99aa06d3014798d86001c324468d497f");
  TemporaryDirectory directory;
  std::string text(700'001, 'a');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 % 251);
  replace_file(directory / "file", text);
  Hasher hasher;
  const auto bytes = std::as_bytes(std::span<const char>(text));
  hasher.add(bytes.first(1000));
  hasher.add(bytes.subspan(1000));
  EXPECT_EQ(hasher.hex(), hash_text(text));
  EXPECT_EQ(digest_file(directory / "file"), (FileDigest{700'001, hash_text(text)}));
  text[350'000] ^= 1;
  EXPECT_NE(hasher.hex(), hash_text(text));
}
