// Files that are there whole or not at all, hashes, and the checked calls beneath.
#include "storage/atomic_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "storage/hash.hpp"

using namespace pipefill;
using pipefill::TemporaryDirectory;

TEST(ReplaceFile, ReplacesAndLeavesNothingBeside) {
  TemporaryDirectory directory;
  const std::string path = directory / "status.json";
  replace_file(path, "one");
  replace_file(path, "two", Durability::cached);
  EXPECT_EQ(read_file(path, 100), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

// Every rank that fails tells so in the same status.json, and a watchdog beside its main thread.
TEST(ReplaceFile, WritersAtTheSameTimeNeverShowAPart) {
  TemporaryDirectory directory;
  const std::string path = directory / "status.json";
  const auto content = [](int writer) { return std::string(20'000, static_cast<char>('a' + writer)); };
  replace_file(path, content(0), Durability::cached);
  std::atomic<int> writing{4};
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer)
    writers.emplace_back([&, writer] {
      for (int i = 0; i < 200; ++i) EXPECT_NO_THROW(replace_file(path, content(writer), Durability::cached));
      --writing;
    });
  while (writing > 0) {
    const std::string seen = read_file(path, 100'000);
    EXPECT_EQ(seen.size(), 20'000U);
    EXPECT_EQ(seen.find_first_not_of(seen.front()), seen.npos);
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(ReplaceFile, WhatAKilledProcessLeftIsRemoved) {
  TemporaryDirectory directory;
  replace_file(directory / "status.json", "one");
  std::ofstream(directory / ".status.json.4711-12.tmp") << "half";
  remove_temporaries(directory.path());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
  EXPECT_EQ(read_file(directory / "status.json", 100), "one");
  EXPECT_NO_THROW(remove_temporaries(directory / "nowhere"));
}

// Their sizes are made up: 0 under /proc, a page under /sys.
TEST(ReadFile, FilesOfTheKernelAreRefusedAndEmptyOnesAreNot) {
  TemporaryDirectory directory;
  std::ofstream(directory / "empty").flush();
  EXPECT_EQ(read_file(directory / "empty", 10), "");
  for (const char* const path : {"/proc/cpuinfo", "/sys/kernel/mm/transparent_hugepage/enabled"}) {
    if (!std::filesystem::exists(path)) continue;
    try {
      (void)read_file(path, 1 << 20);
      ADD_FAILURE() << path << " was read";
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ExitCode::damaged_data);
      EXPECT_NE(std::string(error.what()).find("copy its content into a file"), std::string::npos) << error.what();
    }
  }
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
