// A fill job's model from a checkpoint of the program: the right one, whatever the layout, and the same one to the end.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "base/temporary_directory.hpp"
#include "checkpoint/save.hpp"
#include "comm/loopback_transport.hpp"
#include "comm/wait.hpp"
#include "data/token_data.hpp"
#include "device/cpu/cpu_device.hpp"
#include "fill_jobs/score.hpp"
#include "job_host.hpp"
#include "model/stage.hpp"
#include "storage/h5_file.hpp"
#include "storage/hdf5_thread.hpp"

namespace pipefill::testing {
namespace {

constexpr ModelShape kShape{3, 32, 4, 16, 64, false};

Stage whole_model(std::uint64_t seed, Device& device) {
  return Stage({.shape = kShape,
                .cut = cut_layers_by_cost(kShape, 1),
                .chunks = {{0}},
                .slots = {1},
                .weight_slots = {},
                .seed = seed},
               device);
}

/// RUN/checkpoints/step-N with the model of a seed, its tensors spread over two ranks.
void save_model(const std::string& run, std::int64_t step, std::uint64_t seed) {
  CpuDevice device(1, Bytes{0});
  const Stage stage = whole_model(seed, device);
  Hdf5Thread hdf5;
  std::filesystem::create_directories(run);
  run_loopback(2, [&](Transport& transport) {
    Waiter waiter({2, 1}, transport.rank(), {});
    const RankGroup ranks = ranks_over(transport, waiter);
    std::vector<TensorSlice> slices;
    for (std::size_t i = 0; i < stage.tensors().size(); ++i) {
      const TensorSpec& spec = stage.tensors()[i].spec;
      if (static_cast<int>(i) % 2 == ranks.rank)
        slices.push_back({{TensorGroup::parameters, spec.name, spec.shape, 0, spec.rows()}, stage.tensors()[i].values});
    }
    SaveRequest request{.directory = run + "/checkpoints", .state = {}, .slices = slices};
    request.state.step = step;
    request.state.schedule = "1f1b";
    request.state.layers = {3};
    request.state.deck = "run:\n  seed: 7\nmodel:\n  layers: 3\n  heads: 4\n";
    std::set<std::string> known_good;
    const SaveReport report = save_checkpoint(ranks, hdf5, request, known_good);
    ASSERT_TRUE(report.saved()) << report.error;
  });
}

JobText job_on(const std::string& checkpoint) {
  return {.kind = score_kind(), .with = {{"synthetic", "5"}, {"batch", "2"}, {"checkpoint", checkpoint}}};
}

std::vector<double> scores_in(const std::string& directory) {
  return H5File::open(directory + "/nll.h5").read<double>("/nll");
}

/// A job run in `directory` from chunk `first` up to `last` (of all: -1).
void run_part(const JobText& text, const std::string& directory, std::int64_t last = -1) {
  HostedJob job(text, directory);
  const auto c = job.configurations().at(0);
  const MappedState state(directory, c.state_bytes);
  job.restore(0, state.state(), state.done());
  while (state.done() < (last < 0 ? c.chunks : last)) {
    job.run(state.done());
    ++state.done();
  }
  job.save(state.done());
}

std::vector<double> expected_scores(std::uint64_t seed) {
  CpuDevice device(1, Bytes{0});
  Stage stage = whole_model(seed, device);
  const TokenData data = open_data({.format = TokenFormat::synthetic, .files = {}, .vocab = 64, .seed = 1}, 16);
  std::vector<double> losses;
  std::vector<std::int32_t> tokens(17);
  for (int s = 0; s < 5; ++s) {
    data.read_in_order(s, tokens);
    const std::span<const std::int32_t> all(tokens);
    stage.forward(
        {0}, {0}, {all.first(16), all.subspan(1)}, {}, {}, [] {}, ForwardMode::validation);
    losses.push_back(stage.loss({0}));
  }
  return losses;
}

void expect_scores(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << i;
}

TEST(CheckpointSource, IsTheNewestOfARunOrTheStepThatIsNamed) {
  const TemporaryDirectory run;
  save_model(run.path(), 10, 5);
  save_model(run.path(), 20, 6);
  const std::pair<std::string, std::uint64_t> cases[] = {{run.path(), 6},
                                                         {run / "checkpoints", 6},
                                                         {run / "checkpoints/step-00000010", 5},
                                                         {run / "checkpoints/step-00000010/", 5}};
  for (const auto& [checkpoint, seed] : cases) {
    const TemporaryDirectory directory;
    run_part(job_on(checkpoint), directory.path());
    expect_scores(scores_in(directory.path()), expected_scores(seed));
  }
}

TEST(CheckpointSource, StaysTheSameThoughTheRunGoesOnAndPrunesIt) {
  const TemporaryDirectory run, directory;
  save_model(run.path(), 10, 5);
  run_part(job_on(run.path()), directory.path(), 7);
  save_model(run.path(), 20, 6);
  std::filesystem::remove_all(run / "checkpoints/step-00000010");
  run_part(job_on(run.path()), directory.path());
  expect_scores(scores_in(directory.path()), expected_scores(5));
}

TEST(CheckpointSource, IsTheSameForAllPartsOfAJob) {
  const TemporaryDirectory run, job;
  save_model(run.path(), 10, 1);
  JobText part = job_on(run.path());
  part.shards = 2;
  const HostedJob first(part, job.path());
  save_model(run.path(), 20, 2);
  part.shard = 1;
  HostedJob second(part, job.path());  // made later, in the directory they share
  const auto c = second.configurations().at(0);
  const MappedState state(job.path(), c.state_bytes);
  second.restore(0, state.state(), 0);
  second.save(0);
  EXPECT_NE(H5File::open(job / "nll.h5").read_text_attribute("/", "model").find("step-00000010"), std::string::npos);
}

TEST(CheckpointSource, ThatIsDamagedIsRefused) {
  const TemporaryDirectory run, directory;
  save_model(run.path(), 10, 5);
  const std::string shard = run / "checkpoints/step-00000010/shard-0001.h5";
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(shard)) - 100);
  file.put('\x5a').put('\x5b').put('\x5c');
  file.close();
  try {
    run_part(job_on(run.path()), directory.path());
    ADD_FAILURE() << "the checkpoint was taken";
  } catch (const JobFailure& failure) {
    EXPECT_EQ(failure.result, PIPEFILL_FILL_INVALID);
    EXPECT_NE(failure.text.find("shard-0001.h5"), std::string::npos) << failure.text;
  }
}

}  // namespace
}  // namespace pipefill::testing
