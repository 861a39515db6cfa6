// No damage goes unseen, none crashes or hangs, each is named, and the checkpoint before the damaged one is taken.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <random>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "checkpoint/directory.hpp"
#include "example.hpp"
#include "storage/atomic_file.hpp"

using namespace pipefill;
using namespace pipefill::testing;
namespace fs = std::filesystem;

namespace {

constexpr Cut kCut{2, 2, Moments::sharded};

/// Two checkpoints, steps 1 (example 1) and 2 (example 2); tests damage the second.
class Damaged : public ::testing::Test {
 protected:
  Damaged() {
    EXPECT_EQ(save(directory_.path(), older_, state_at(1), kCut).error, "");
    EXPECT_EQ(save(directory_.path(), Example(2), state_at(2), kCut).error, "");
    newest_ = directory_ / step_name(2);
  }
  /// The older one is found, the newer named, by one process and by four ranks alike. Returns the first finding.
  Damage falls_back() {
    Damage first;
    for (const Cut& cut : {Cut{1, 1}, Cut{2, 2}}) {
      as_ranks(cut, [&](const RankGroup& ranks) {
        const CheckpointSearch search = find_checkpoint(ranks, directory_.path());
        ASSERT_TRUE(search.found);
        EXPECT_EQ(search.found->path, directory_ / step_name(1));
        ASSERT_EQ(search.damaged.size(), 1u);
        EXPECT_EQ(search.damaged[0].path, newest_);
        if (ranks.rank == 0) first = search.damaged[0].damage.at(0);
      });
    }
    return first;
  }
  /// Rewrites the manifest with `from` replaced by `to`, and its hash made right again.
  void forge(const std::string& from, const std::string& to) {
    const std::string path = newest_ + "/" + kManifestName;
    std::string text = read_file(path, 1 << 20);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const std::size_t key = text.rfind(",\n \"manifest_xxh3_128\"");
    const std::size_t hash = text.find(": \"", key) + 3;
    text.replace(hash, 32, hash_text(std::string_view(text).substr(0, key)));
    std::ofstream(path, std::ios::trunc) << text;
  }

  TemporaryDirectory directory_;
  Example older_{1};
  std::string newest_;
};

void flip(const std::string& path, std::int64_t byte, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(byte);
  const char value = static_cast<char>(file.get());
  file.seekp(byte);
  file.put(static_cast<char>(value ^ (1 << bit)));
}

}  // namespace

TEST_F(Damaged, EveryFlippedBitIsSeenAndNamed) {
  const Manifest manifest = read_manifest(newest_);
  std::vector<std::pair<std::string, std::int64_t>> files;
  std::int64_t total = 0;
  for (const std::string& name : names_in(newest_)) {
    files.emplace_back(name, static_cast<std::int64_t>(fs::file_size(newest_ + "/" + name)));
    total += files.back().second;
  }
  ASSERT_EQ(files.size(), 6u);  // four shards, master, manifest
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; ++i) {
    // Every second flip over all bytes alike, the others over files alike, so that the small ones get their share.
    auto chosen = files[random() % files.size()];
    if (i % 2 == 0) {
      std::int64_t at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(total));
      for (const auto& file : files) {
        chosen = file;
        if (at < file.second) break;
        at -= file.second;
      }
    }
    const std::int64_t byte = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(chosen.second));
    const int bit = static_cast<int>(random() % 8);
    const std::string path = newest_ + "/" + chosen.first;
    flip(path, byte, bit);
    const std::vector<Damage> damage = verify_checkpoint(newest_);
    ASSERT_EQ(damage.size(), 1u) << chosen.first << " byte " << byte << " bit " << bit;
    EXPECT_EQ(damage[0].file, chosen.first);
    std::string tensor;
    for (const FileRecord& file : manifest.files) {
      for (const SliceRecord& slice : file.slices) {
        if (file.name == chosen.first && slice.offset <= byte && byte < slice.offset + 4 * slice.elements()) {
          tensor = slice.describe();
        }
      }
    }
    EXPECT_EQ(damage[0].tensor, tensor);
    if (chosen.first != kManifestName) {
      EXPECT_EQ(damage[0].expected.size(), 32u);
      EXPECT_EQ(damage[0].found.size(), 32u);
      EXPECT_NE(damage[0].expected, damage[0].found);
    }
    if (i % 100 == 0) falls_back();
    flip(path, byte, bit);
  }
  EXPECT_TRUE(verify_checkpoint(newest_).empty());
}

TEST_F(Damaged, EveryTruncationIsSeenAndNamed) {
  int truncations = 0;
  for (const std::string& name : names_in(newest_)) {
    const std::string path = newest_ + "/" + name;
    const std::string content = read_file(path, 1 << 20);
    std::vector<std::size_t> lengths = {content.size() - 1};  // BUGS A13: by one byte
    for (std::size_t length = 0; length < content.size(); length += 512) lengths.push_back(length);
    for (const std::size_t length : lengths) {
      fs::resize_file(path, length);
      const std::vector<Damage> damage = verify_checkpoint(newest_);
      ASSERT_EQ(damage.size(), 1u) << name << " cut to " << length;
      EXPECT_EQ(damage[0].file, name);
      if (length % 4096 == 0) falls_back();
      std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
      ++truncations;
    }
  }
  EXPECT_GT(truncations, 40);
  EXPECT_TRUE(verify_checkpoint(newest_).empty());
}

TEST_F(Damaged, GrownFilesAreSeen) {
  for (const std::string& name : names_in(newest_)) {
    const std::string path = newest_ + "/" + name;
    const std::uintmax_t size = fs::file_size(path);
    std::ofstream(path, std::ios::app) << 'x';
    EXPECT_EQ(falls_back().file, name);
    fs::resize_file(path, size);
  }
}

TEST_F(Damaged, MissingFiles) {
  for (const std::string& name : names_in(newest_)) {
    fs::rename(newest_ + "/" + name, directory_ / "aside");
    const Damage damage = falls_back();
    EXPECT_EQ(damage.file, name);
    EXPECT_NE(damage.text.find("missing"), std::string::npos) << damage.text;
    fs::rename(directory_ / "aside", newest_ + "/" + name);
  }
}

TEST_F(Damaged, SwappedShards) {
  fs::rename(newest_ + "/shard-0000.h5", newest_ + "/aside");
  fs::rename(newest_ + "/shard-0001.h5", newest_ + "/shard-0000.h5");
  fs::rename(newest_ + "/aside", newest_ + "/shard-0001.h5");
  EXPECT_EQ(falls_back().file, "shard-0000.h5");
  EXPECT_GE(verify_checkpoint(newest_).size(), 2u);
}

TEST_F(Damaged, AShardOfAnotherStep) {
  fs::copy_file(directory_ / step_name(1) + "/shard-0002.h5", newest_ + "/shard-0002.h5",
                fs::copy_options::overwrite_existing);
  const Damage damage = falls_back();
  EXPECT_EQ(damage.file, "shard-0002.h5");
  EXPECT_NE(damage.tensor, "");
}

TEST_F(Damaged, ACopiedDirectoryIsNotANewerCheckpoint) {
  fs::copy(directory_ / step_name(1), directory_ / step_name(7));
  const CheckpointSearch search = find_checkpoint(single_rank(), directory_.path());
  EXPECT_EQ(search.found->path, newest_);
  ASSERT_EQ(search.damaged.size(), 1u);
  EXPECT_NE(search.damaged[0].damage[0].text.find("step 1"), std::string::npos) << search.damaged[0].damage[0].text;
}

TEST_F(Damaged, WhatIsNotAFileDoesNotHang) {
  fs::remove(newest_ + "/shard-0001.h5");
  ASSERT_EQ(::mkfifo((newest_ + "/shard-0001.h5").c_str(), 0600), 0);
  EXPECT_NE(falls_back().text.find("not a regular file"), std::string::npos);
  fs::remove(newest_ + "/shard-0001.h5");
  fs::create_directory(newest_ + "/shard-0001.h5");
  EXPECT_NE(falls_back().text.find("not a regular file"), std::string::npos);
}

TEST_F(Damaged, TheManifestAsAPipeOrADirectory) {
  const std::string path = newest_ + "/" + kManifestName;
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(falls_back().file, kManifestName);
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(falls_back().file, kManifestName);
}

TEST_F(Damaged, ANewerFormatIsRefusedByName) {
  forge("\"major\": 1", "\"major\": 2");
  EXPECT_NE(falls_back().text.find("newer pipefill"), std::string::npos);
}

TEST_F(Damaged, ANewerMinorFormatIsRead) {
  forge("\"minor\": 0", "\"minor\": 9,\n  \"what this reader does not know\": [1, 2]");
  EXPECT_TRUE(verify_checkpoint(newest_).empty());
}

TEST_F(Damaged, SizesThatCannotBeRightAreRefusedBeforeUse) {
  const std::string original = read_file(newest_ + "/" + kManifestName, 1 << 20);
  const std::size_t shape = original.find("\"shape\"");
  const std::string shape_text = original.substr(shape, original.find(']', shape) + 1 - shape);
  const std::vector<std::pair<std::string, std::string>> forgeries = {
      {shape_text, "\"shape\": [9223372036854775807, 4]"},
      {shape_text, "\"shape\": [4611686018427387904, 4]"},
      {shape_text, "\"shape\": [99999999999999999999999]"},
      {shape_text, "\"shape\": []"},
      {shape_text, "\"shape\": [-37, 4]"},
      {shape_text, "\"shape\": [0]"},
      {shape_text, "\"shape\": \"large\""},
      {"\"offset\": ", "\"offset\": -"},
      {"\"offset\": ", "\"offset\": 9223372036854775807, \"was\": "},
      {"\"bytes\": ", "\"bytes\": -1, \"was\": "},
      {"\"name\": \"shard-0000.h5\"", "\"name\": \"../step-00000001/shard-0000.h5\""},
      {"\"name\": \"shard-0000.h5\"", "\"name\": \"shard-0001.h5\""},
      {"\"name\": \"shard-0000.h5\"", "\"name\": 17"},
      {"\"group\": \"parameters\"", "\"group\": \"gradients\""},
      {"\"group\": \"parameters\"", "\"group\": \"moment1\""},
      {"\"files\": [", "\"files\": [], \"others\": ["},
      {"\"step\": 2", "\"step\": 2.5e300"},
      {"\"attempt\": 1", "\"attempt\": 123456789012345678901"},
  };
  for (const auto& [from, to] : forgeries) {
    forge(from, to);
    const std::vector<Damage> damage = verify_checkpoint(newest_);
    EXPECT_FALSE(damage.empty()) << "accepted: " << to;
    std::ofstream(newest_ + "/" + kManifestName, std::ios::trunc) << original;
  }
  EXPECT_TRUE(verify_checkpoint(newest_).empty());
}

TEST_F(Damaged, DeeplyNestedManifestsDoNotExhaustTheStack) {
  forge("\"fill_jobs\": {}", "\"fill_jobs\": " + std::string(200'000, '[') + std::string(200'000, ']'));
  EXPECT_NE(falls_back().text.find("nested too deeply"), std::string::npos);
}

TEST_F(Damaged, AllDamagedIsNothingFoundAndAllNamed) {
  fs::resize_file(newest_ + "/shard-0000.h5", 10);
  fs::remove(directory_ / step_name(1) + "/" + kManifestName);
  const CheckpointSearch search = find_checkpoint(single_rank(), directory_.path());
  EXPECT_FALSE(search.found);
  EXPECT_EQ(search.damaged.size(), 2u);
}

TEST_F(Damaged, AnExplicitStepIsTakenOrRefused) {
  EXPECT_EQ(find_checkpoint(single_rank(), directory_.path(), 1).found->path, directory_ / step_name(1));
  fs::resize_file(newest_ + "/shard-0000.h5", 10);
  const auto code_of = [&](std::int64_t step) {
    std::vector<ExitCode> codes(4);
    as_ranks({2, 2}, [&](const RankGroup& ranks) {
      try {
        find_checkpoint(ranks, directory_.path(), step);
      } catch (const Error& error) {
        codes[static_cast<std::size_t>(ranks.rank)] = error.code();
      }
    });
    EXPECT_EQ(codes, std::vector<ExitCode>(4, codes[0]));
    return codes[0];
  };
  EXPECT_EQ(code_of(2), ExitCode::damaged_data);
  EXPECT_EQ(code_of(3), ExitCode::missing_input);
}

TEST_F(Damaged, LeftoversAreNeverTakenForCheckpoints) {
  fs::rename(newest_, directory_ / temporary_name(2, 1));
  fs::create_directory(directory_ / ".trash-step-00000000");
  fs::create_directory(directory_ / "step-3");
  fs::create_directory(directory_ / "step-00000004x");
  const CheckpointSearch search = find_checkpoint(single_rank(), directory_.path());
  EXPECT_EQ(search.found->path, directory_ / step_name(1));
  EXPECT_TRUE(search.damaged.empty());
  EXPECT_EQ(prune_leftovers(directory_.path()).size(), 2u);
  EXPECT_EQ(names_in(directory_.path()), (std::vector<std::string>{"step-00000001", "step-00000004x", "step-3"}));
}
