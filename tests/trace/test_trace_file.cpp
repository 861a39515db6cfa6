// trace/trace_file: what is written comes back; what is damaged, foreign or newer is refused and never parsed.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <random>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "storage/hash.hpp"
#include "tests/trace/trace_samples.hpp"
#include "trace/seal.hpp"
#include "trace/trace_file.hpp"

namespace pipefill {
namespace {

using testing::sample_run;

std::vector<EventRow> many_events(int count) {
  std::vector<EventRow> rows(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    rows[i].step = i / 7;
    rows[i].kind = static_cast<std::int16_t>(i % kEventKinds);
    rows[i].microbatch = static_cast<std::int16_t>(i % 100 - 1);
    rows[i].cost_class = static_cast<std::int16_t>(i % 5 - 1);
    rows[i].granted_ns = 3 * i;
    rows[i].start_ns = std::int64_t{i} * 1'000'000'007;
    rows[i].end_ns = rows[i].start_ns + i;
    rows[i].bytes = -i;
  }
  return rows;
}

void write_sample(const std::string& path, int events) {
  TraceFileWriter writer(path, sample_run());
  const auto rows = many_events(events);
  const auto half = std::span(rows).first(rows.size() / 3);
  writer.append(half);
  writer.append(std::span(rows).subspan(half.size()));
  writer.append(std::span<const StepRow>(std::vector<StepRow>(3)));
  writer.append(std::span<const RankRow>(std::vector<RankRow>(1)));
  writer.finish();
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_all_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

ExitCode code_of(const std::string& path) {
  try {
    const TraceFileReader reader(path);
    reader.read<EventRow>(0, 1000);
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
    return error.code();
  }
  return ExitCode::finished;
}

TEST(TraceFile, GivesBackWhatWasWritten) {
  const TemporaryDirectory directory;
  const std::string path = directory / "rank-00000-segment-000001.h5";
  write_sample(path, 10'000);
  const TraceFileReader reader(path);
  const RunDescription run = sample_run();
  EXPECT_EQ(reader.run().run_id, run.run_id);
  EXPECT_EQ(reader.run().config_yaml, run.config_yaml);
  EXPECT_EQ(reader.run().stages, run.stages);
  EXPECT_DOUBLE_EQ(reader.run().bubble_fraction_closed_form, 0.2);
  EXPECT_TRUE(std::isnan(reader.run().peak_flops_per_rank));
  EXPECT_EQ(reader.count<EventRow>(), 10'000u);
  EXPECT_EQ(reader.count<StepRow>(), 3u);
  const auto expected = many_events(10'000);
  const auto found = reader.read<EventRow>(9'000, 5'000);
  ASSERT_EQ(found.size(), 1'000u);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const EventRow &a = found[i], &b = expected[9'000 + i];
    ASSERT_TRUE(a.step == b.step && a.kind == b.kind && a.microbatch == b.microbatch && a.cost_class == b.cost_class &&
                a.granted_ns == b.granted_ns && a.start_ns == b.start_ns && a.end_ns == b.end_ns && a.bytes == b.bytes);
  }
  EXPECT_TRUE(reader.read<EventRow>(10'000, 1).empty());
}

TEST(TraceFile, RefusesEveryFlippedBitAndEveryCut) {
  const TemporaryDirectory directory;
  const std::string path = directory / "good.h5", bad = directory / "bad.h5";
  write_sample(path, 200);
  const std::string good = read_all(path);
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string changed = good;
    changed[random() % changed.size()] ^= static_cast<char>(1 << (random() % 8));
    write_all_text(bad, changed);
    ASSERT_EQ(code_of(bad), ExitCode::damaged_data) << i;
  }
  for (std::size_t size = 0; size < good.size(); size += 512) {
    write_all_text(bad, good.substr(0, size));
    ASSERT_EQ(code_of(bad), ExitCode::damaged_data) << size;
  }
  write_all_text(bad, good + "x");
  EXPECT_EQ(code_of(bad), ExitCode::damaged_data);
  EXPECT_EQ(code_of(path), ExitCode::finished);
  EXPECT_EQ(code_of(directory / "absent.h5"), ExitCode::missing_input);
}

/// Overwrites an attribute and seals again, as another version of the program would write it.
void change_version(const std::string& path, std::int32_t major, std::int32_t minor) {
  std::string content = read_all(path);
  content.resize(content.rfind("\npipefill-seal-1 "));
  write_all_text(path, content);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  const hid_t attribute = H5Aopen(file, "version", H5P_DEFAULT);
  const std::int32_t version[] = {major, minor};
  EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_INT32, version), 0);
  EXPECT_GE(H5Aclose(attribute), 0);
  EXPECT_GE(H5Fclose(file), 0);
  append_seal(path, digest_file(path), Durability::cached);
}

TEST(TraceFile, ReadsNewerMinorVersionsAndRefusesNewerMajorOnes) {
  const TemporaryDirectory directory;
  const std::string path = directory / "trace.h5";
  write_sample(path, 10);
  change_version(path, kTraceVersionMajor, kTraceVersionMinor + 1);
  EXPECT_EQ(code_of(path), ExitCode::finished);
  change_version(path, kTraceVersionMajor + 1, 0);
  EXPECT_EQ(code_of(path), ExitCode::damaged_data);
}

TEST(TraceFile, SealedHdf5OfAnotherKindIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory / "other.h5";
  {
    H5File file = H5File::create(path);
    const std::vector<double> values{1, 2, 3};
    file.write<double>("events", values, {3});
    file.close();
  }
  append_seal(path, digest_file(path), Durability::cached);
  EXPECT_EQ(code_of(path), ExitCode::damaged_data);
}

TEST(TraceFile, LeavesNothingBehindWhenTheDiskIsFull) {
  const TemporaryDirectory directory;
  const std::string path = directory / "full.h5";
  int calls = 0;
  const auto full = [&](const char* call) { return std::string(call) == "pwrite" && ++calls > 2 ? ENOSPC : 0; };
  try {
    TraceFileWriter writer(path, sample_run(), {.inject = full});
    const auto rows = many_events(20'000);
    writer.append(std::span<const EventRow>(rows));
    writer.finish();
    FAIL() << "a full disk went unnoticed";
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ExitCode::input_output);
    EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  EXPECT_EQ(H5close(), 0);  // the library's shutdown, which a write error that HDF5 sees would crash
}

}  // namespace
}  // namespace pipefill
