// What was saved is loaded, bit for bit, from any layout into any other; and people's tools see whole tensors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "example.hpp"
#include "storage/h5_file.hpp"

using namespace pipefill;
using namespace pipefill::testing;

namespace {

const std::vector<Cut> kCuts = {
    {1, 1}, {2, 1}, {1, 2}, {1, 2, Moments::sharded}, {4, 1}, {2, 2}, {2, 2, Moments::sharded}};

}  // namespace

TEST(RoundTrip, AnyLayoutIntoAnyOther) {
  for (std::size_t from = 0; from < kCuts.size(); ++from) {
    TemporaryDirectory directory;
    const Example example(static_cast<unsigned>(from));
    ASSERT_EQ(save(directory.path(), example, state_at(3), kCuts[from]).error, "");
    for (const Cut& to : kCuts) {
      as_ranks(to, [&](const RankGroup& ranks) {
        const CheckpointSearch search = find_checkpoint(ranks, directory.path());
        ASSERT_TRUE(search.found && search.damaged.empty());
        EXPECT_EQ(search.found->manifest.state, state_at(3));
        const std::vector<TensorSlice> mine = example.owned_by(ranks.rank, to);
        std::vector<std::vector<float>> loaded;
        std::vector<TensorDestination> wanted;
        for (const TensorSlice& slice : mine) {
          loaded.emplace_back(slice.values.size());
          wanted.push_back({slice, loaded.back()});
        }
        load_tensors(ranks, *search.found, wanted);
        for (std::size_t i = 0; i < mine.size(); ++i) {
          EXPECT_EQ(hash_values(std::span<const float>(loaded[i])), hash_values(mine[i].values))  // NaNs are not equal
              << mine[i].describe();
        }
      });
    }
  }
}

TEST(RoundTrip, AllStateSurvives) {
  TemporaryDirectory directory;
  RunState state = state_at(12, 4);
  state.stages = 2;
  state.replicas = 3;
  state.layers = {1, 0, 5};
  state.seed = ~std::uint64_t{0};
  state.training_loss = 0.1 + 1e-17;
  state.validation_loss = 1.0 / 3;
  state.fill_jobs = R"({"a":{"done":17}})";
  state.deck = "model:\n  name: \"quoted \\ ü\"\n";
  ASSERT_EQ(save(directory.path(), Example(1), state).error, "");
  EXPECT_EQ(find_checkpoint(single_rank(), directory.path()).found->manifest.state, state);
}

TEST(RoundTrip, AnotherModelIsRefusedOnAllRanks) {
  TemporaryDirectory directory;
  ASSERT_EQ(save(directory.path(), Example(1), state_at(1)).error, "");
  const auto failure = [&](const TensorRows& rows) {
    std::vector<std::string> texts(2);
    as_ranks({2, 1}, [&](const RankGroup& ranks) {
      const auto search = find_checkpoint(ranks, directory.path());
      std::vector<float> values(static_cast<std::size_t>(rows.elements()));
      const TensorDestination wanted{rows, values};
      try {  // only rank 1 asks for what is not there; rank 0 must not go on alone
        load_tensors(ranks, *search.found, std::span(&wanted, ranks.rank == 1 ? 1 : 0));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::deck);
        texts[static_cast<std::size_t>(ranks.rank)] = error.what();
      }
    });
    EXPECT_EQ(texts[0], texts[1]);
    return texts[0];
  };
  const std::string shape = failure({TensorGroup::parameters, "token_embedding.weight", {38, 4}, 0, 38});
  EXPECT_NE(shape.find("(37,4)"), std::string::npos) << shape;
  EXPECT_NE(shape.find("(38,4)"), std::string::npos) << shape;
  const std::string absent = failure({TensorGroup::moment1, "block.9.mlp.expand.bias", {16}, 0, 16});
  EXPECT_NE(absent.find("moment1/block.9.mlp.expand.bias"), std::string::npos) << absent;
}

TEST(RoundTrip, ATensorNotCoveredExactlyOnceIsABug) {
  TemporaryDirectory directory;
  const Example example(1);
  Hdf5Thread hdf5;
  std::set<std::string> known;
  std::vector<TensorSlice> slices = example.owned_by(0, {});
  slices[0].row_end -= 1;
  slices[0].values = slices[0].values.first(slices[0].values.size() - 4);
  const SaveRequest request{.directory = directory.path(), .state = state_at(1), .slices = slices};
  try {
    save_checkpoint(single_rank(), hdf5, request, known);
    FAIL() << "a gap was saved";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bug);
    EXPECT_NE(std::string(error.what()).find("rows 36..37 are missing"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(names_in(directory.path()).empty());
}

TEST(RoundTrip, TheTiedEmbeddingIsThereOnce) {
  TemporaryDirectory directory;
  ASSERT_EQ(save(directory.path(), Example(1), state_at(1), {2, 1}).error, "");
  const auto search = find_checkpoint(single_rank(), directory.path());
  int times = 0;
  for (const FileRecord& file : search.found->manifest.files) {
    for (const SliceRecord& slice : file.slices) {
      times += slice.group == TensorGroup::parameters && slice.name == "token_embedding.weight";
    }
  }
  EXPECT_EQ(times, 1);
}

TEST(RoundTrip, H5pySeesWholeTensorsFromAnyDirectory) {
  if (std::system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) GTEST_SKIP() << "no h5py in /usr/bin/python3";
  TemporaryDirectory directory;
  const Example example(5);
  const SaveReport report = save(directory / "checkpoints", example, state_at(9), {2, 2, Moments::sharded});
  ASSERT_EQ(report.error, "");
  for (const auto& [rows, values] : example.tensors()) {
    std::ofstream raw(directory / (std::string(group_name(rows.group)) + "." + rows.name), std::ios::binary);
    raw.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 4));
  }
  std::ofstream(directory / "look.py") << R"(
import sys, os, h5py, numpy
checkpoint, expected = sys.argv[1:]
tensors = 0
with h5py.File(os.path.join(checkpoint, "checkpoint.h5"), "r") as f:
    assert f.attrs["step"] == 9 and f.attrs["filetype"] == "pipefill checkpoint", dict(f.attrs)
    for group in ("parameters", "moment1", "moment2"):
        for name, data in f[group].items():
            want = numpy.fromfile(os.path.join(expected, group + "." + name), dtype="<f4")
            assert data.dtype == numpy.dtype("<f4") and data[...].tobytes() == want.tobytes(), name
            tensors += 1
assert tensors == 18, tensors
with h5py.File(os.path.join(checkpoint, "shard-0003.h5"), "r") as f:
    data = f["moment1/block.1.mlp.expand.weight"]
    assert list(data.attrs["global_shape"]) == [16, 4] and data.attrs["row_begin"] == 8 and data.attrs["row_end"] == 16
    assert data.shape == (8, 4) and len(data.attrs["xxh3_128"]) == 32
os.rename(os.path.join(checkpoint, "shard-0000.h5"), os.path.join(checkpoint, "gone"))
with h5py.File(os.path.join(checkpoint, "checkpoint.h5"), "r") as f:
    assert numpy.isnan(f["parameters/token_embedding.weight"][...]).all(), "a missing shard must not read as zeros"
)";
  const std::string command = "cd / && /usr/bin/python3 " + directory / "look.py";
  EXPECT_EQ(std::system((command + " " + report.path + " " + directory.path()).c_str()), 0);
}

TEST(RoundTrip, TheHdf5DatasetsHoldWhatTheManifestPointsAt) {
  TemporaryDirectory directory;
  const Example example(6);
  const SaveReport report = save(directory.path(), example, state_at(2), {2, 1});
  const auto search = find_checkpoint(single_rank(), directory.path());
  int compared = 0;
  for (const FileRecord& file : search.found->manifest.files) {
    const H5File shard = H5File::open(report.path + "/" + file.name);
    for (const SliceRecord& slice : file.slices) {
      const std::string dataset = fmt::format("/{}/{}", group_name(slice.group), slice.name);
      const std::vector<float> values = shard.read<float>(dataset);
      EXPECT_EQ(hash_values(std::span<const float>(values)), slice.hash);
      EXPECT_EQ(shard.read_text_attribute(dataset, "xxh3_128"), slice.hash);
      EXPECT_EQ(shard.offset(dataset), slice.offset);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 18);
}
