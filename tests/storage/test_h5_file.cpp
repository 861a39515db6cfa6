// H5File and the latching driver: what is written is read back, and no failing system call harms HDF5 or goes unseen.
#include "storage/h5_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "storage/hash.hpp"

using namespace pipefill;
using pipefill::TemporaryDirectory;

namespace {

std::vector<float> counting(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.5f);
  return values;
}

/// What a small file's life throws: the error's exit code and text, or nothing.
struct Outcome {
  int code = 0;
  std::string text;
};
Outcome write_one(const std::string& path, std::size_t floats, std::function<int(const char*)> inject = {}) {
  const std::vector<float> values = counting(floats);
  try {
    H5File file = H5File::create(path, {.inject = std::move(inject)});
    for (const char* name : {"a", "b/c", "b/d"}) {
      file.write<float>(name, values, {static_cast<std::int64_t>(floats)});
      file.write_attribute(name, "hash", hash_values(std::span<const float>(values)));
    }
    file.close();
  } catch (const FileError& error) {
    return {static_cast<int>(error.code()), error.what()};
  }
  return {};
}

}  // namespace

TEST(H5File, ReadsBackWhatWasWritten) {
  TemporaryDirectory directory;
  const std::string path = directory / "x.h5";
  const std::vector<float> values = counting(24);
  const std::vector<std::int64_t> longs = {-1, std::int64_t{1} << 40};
  H5File file = H5File::create(path, {.hash = HashOnClose::xxh3});
  file.write<float>("group/sub/matrix", values, {4, 6});
  file.write<float>("empty", {}, {0});
  file.write<std::int64_t>("longs", longs, {2});
  file.write_attribute("group/sub/matrix", "unit", "metre");
  file.write_attribute("group/sub/matrix", "rows", std::int64_t{4});
  file.write_attribute("/", "version", std::int32_t{1});
  const std::int64_t offset = file.offset("group/sub/matrix");
  const FileDigest closed = file.close();
  EXPECT_EQ(closed, digest_file(path));

  const H5File again = H5File::open(path);
  EXPECT_EQ(again.shape("group/sub/matrix"), (std::vector<std::int64_t>{4, 6}));
  EXPECT_EQ(again.read<float>("group/sub/matrix"), values);
  EXPECT_EQ(again.read<std::int64_t>("longs"), longs);
  EXPECT_TRUE(again.read<float>("empty").empty());
  EXPECT_EQ(again.read_text_attribute("group/sub/matrix", "unit"), "metre");
  EXPECT_EQ(again.read_attribute<std::int64_t>("group/sub/matrix", "rows"), 4);
  EXPECT_EQ(again.read_attribute<std::int32_t>("/", "version"), 1);
  EXPECT_TRUE(again.exists("group/sub"));
  EXPECT_FALSE(again.exists("group/none/matrix"));

  std::ifstream raw(path, std::ios::binary);
  raw.seekg(offset);
  std::vector<float> bytes(24);
  raw.read(reinterpret_cast<char*>(bytes.data()), 24 * sizeof(float));
  EXPECT_EQ(bytes, values) << "the dataset is not contiguous where offset() says";
}

TEST(H5File, RefusesWhatIsThereMissingOrNotHdf5) {
  TemporaryDirectory directory;
  const std::string path = directory / "x.h5";
  std::ofstream(path) << "this is no HDF5 file";
  const auto code_of = [](auto&& action) {
    try {
      action();
    } catch (const FileError& error) {
      return error.code();
    }
    return ExitCode::finished;
  };
  EXPECT_EQ(code_of([&] { H5File::create(path); }), ExitCode::cannot_create);
  EXPECT_EQ(code_of([&] { H5File::create(directory / "none/x.h5"); }), ExitCode::cannot_create);
  EXPECT_EQ(code_of([&] { H5File::open(path); }), ExitCode::damaged_data);
  EXPECT_EQ(code_of([&] { H5File::open(directory / "none.h5"); }), ExitCode::missing_input);
}

TEST(H5File, Hdf5ErrorsCarryTheLibrarysReason) {
  TemporaryDirectory directory;
  H5File file = H5File::create(directory / "x.h5");
  try {
    file.shape("nowhere");
    FAIL() << "a missing dataset was opened";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("nowhere"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("H5Dopen2"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("doesn't exist"), std::string::npos) << error.what();
  }
}

TEST(LatchingDriver, EveryFailingCallIsReportedAndHdf5GoesOn) {
  TemporaryDirectory directory;
  int calls = 0;
  ASSERT_EQ(write_one(directory / "count.h5", 5000, [&](const char*) { return ++calls, 0; }).code, 0);
  ASSERT_GT(calls, 5);
  for (const int error : {ENOSPC, EIO, EDQUOT}) {
    for (int at = 1; at <= calls; ++at) {
      int seen = 0;
      std::string failed;
      const std::string path = directory / ("x" + std::to_string(error) + "-" + std::to_string(at) + ".h5");
      const Outcome outcome = write_one(path, 5000, [&](const char* call) {
        if (++seen != at) return 0;
        failed = call;
        return error;
      });
      ASSERT_EQ(outcome.code, 74) << "call " << at;
      EXPECT_NE(outcome.text.find(path), std::string::npos) << outcome.text;
      EXPECT_NE(outcome.text.find(std::generic_category().message(error)), std::string::npos) << outcome.text;
      EXPECT_TRUE(failed == "open" || outcome.text.find(failed) != std::string::npos) << outcome.text;
    }
  }
  EXPECT_EQ(write_one(directory / "after.h5", 5000).code, 0) << "the library is unusable after failures";
}

TEST(LatchingDriver, ManyDatasetsAfterAFullDiskDoNotCrash) {
  TemporaryDirectory directory;
  const std::vector<float> values = counting(2000);
  bool failing = false;
  H5File file = H5File::create(directory / "x.h5", {.inject = [&](const char*) { return failing ? ENOSPC : 0; }});
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {  // more metadata than HDF5's cache holds: it evicts and reads back
    failing = i > 100;
    try {
      file.write<float>("group" + std::to_string(i) + "/data", values, {2000});
    } catch (const FileError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
  EXPECT_THROW(file.close(), FileError);
}

TEST(LatchingDriver, AFileSizeLimitIsAnErrorNotASignalOrACrash) {
  TemporaryDirectory directory;
  EXPECT_EXIT(
      {
        std::signal(SIGXFSZ, SIG_IGN);
        rlimit limit{};
        limit.rlim_cur = limit.rlim_max = 100'000;
        setrlimit(RLIMIT_FSIZE, &limit);
        const Outcome outcome = write_one(directory / "x.h5", 100'000);
        const bool right = outcome.code == 74 && outcome.text.find("File too large") != std::string::npos;
        std::exit(right ? 0 : 1);  // exit, not _exit: HDF5's own shutdown is part of the test
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(LatchingDriver, LeavesNothingOpen) {
  TemporaryDirectory directory;
  for (int i = 0; i < 50; ++i) {
    write_one(directory / (std::to_string(i) + ".h5"), 10,
              [&](const char* call) { return i % 2 == 0 && std::string(call) == "fsync" ? EIO : 0; });
  }
  EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0);
  int descriptors = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++descriptors;
  EXPECT_LT(descriptors, 20);
}
