// score: right against the training code's own forward, exactly once per sequence, and the same bytes however its
// chunks are interrupted.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <vector>

#include "base/temporary_directory.hpp"
#include "data/token_data.hpp"
#include "device/cpu/cpu_device.hpp"
#include "fill_jobs/score.hpp"
#include "job_host.hpp"
#include "model/stage.hpp"
#include "storage/h5_file.hpp"

namespace pipefill::testing {
namespace {

JobText small_job() {
  return {.kind = score_kind(),
          .with = {{"synthetic", "11"},
                   {"layers", "2"},
                   {"channels", "32"},
                   {"heads", "2"},
                   {"context", "16"},
                   {"vocab", "64"},
                   {"batch", "4"},
                   {"batch", "1"}}};
}

/// Two pieces of the rows, of the columns of the logits, and of the sequences.
JobText wide_job() {
  return {.kind = score_kind(),
          .with = {{"synthetic", "3"},
                   {"layers", "1"},
                   {"channels", "256"},
                   {"heads", "4"},
                   {"context", "128"},
                   {"vocab", "512"},
                   {"batch", "2"}}};
}

struct Scores {
  std::vector<std::int64_t> sequence, tokens;
  std::vector<double> nll;
};

Scores run_and_read(const JobText& text, int configuration = 0) {
  const TemporaryDirectory directory;
  HostedJob job(text, directory.path());
  const auto c = job.configurations().at(static_cast<std::size_t>(configuration));
  const MappedState state(directory.path(), c.state_bytes);
  job.restore(configuration, state.state(), 0);
  for (std::int64_t chunk = 0; chunk < c.chunks; ++chunk) job.run(chunk);
  job.save(c.chunks);
  const H5File file = H5File::open(directory / "nll.h5");
  return {file.read<std::int64_t>("/sequence"), file.read<std::int64_t>("/tokens"), file.read<double>("/nll")};
}

/// Loss of each sequence by a Stage that holds the whole model.
std::vector<double> stage_losses(const ModelShape& shape, const TokenData& data, std::int64_t sequences,
                                 std::uint64_t seed) {
  CpuDevice device(1, Bytes{0});
  StageSetup setup{.shape = shape,
                   .cut = cut_layers_by_cost(shape, 1),
                   .chunks = {{0}},
                   .slots = {1},
                   .weight_slots = {},
                   .seed = seed};
  Stage stage(setup, device);
  std::vector<double> losses;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.context + 1));
  for (std::int64_t s = 0; s < sequences; ++s) {
    data.read_in_order(s, tokens);
    const std::span<const std::int32_t> all(tokens);
    stage.forward(
        {0}, {0}, {all.first(tokens.size() - 1), all.subspan(1)}, {}, {}, [] {}, ForwardMode::validation);
    losses.push_back(stage.loss({0}));
  }
  return losses;
}

void expect_close(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << i;
}

TEST(Score, EqualsTheStagesLossOfEverySequence) {
  for (int configuration = 0; configuration < 2; ++configuration) {
    const Scores scores = run_and_read(small_job(), configuration);
    const TokenData data = open_data({.format = TokenFormat::synthetic, .files = {}, .vocab = 64, .seed = 1}, 16);
    expect_close(scores.nll, stage_losses({2, 32, 2, 16, 64}, data, 11, 1));
    std::vector<std::int64_t> all(11);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(scores.sequence, all);
    EXPECT_EQ(scores.tokens, std::vector<std::int64_t>(11, 16));
  }
}

TEST(Score, EqualsTheStagesLossWhereEveryPartIsCutInPieces) {
  const TokenData data = open_data({.format = TokenFormat::synthetic, .files = {}, .vocab = 512, .seed = 1}, 128);
  expect_close(run_and_read(wide_job()).nll, stage_losses({1, 256, 4, 128, 512}, data, 3, 1));
}

TEST(Score, ReadsATextInItsOrder) {
  const TemporaryDirectory directory;
  std::ofstream(directory / "text.txt") << std::string(100, 'a') + std::string(61, 'b');
  JobText job = small_job();
  job.with[0] = {"text", directory / "text.txt"};
  job.with[5] = {"vocab", "256"};
  const Scores scores = run_and_read(job);
  ASSERT_EQ(scores.nll.size(), 10U);        // 161 bytes: ten sequences of 16 targets
  EXPECT_EQ(scores.nll[1], scores.nll[2]);  // "aaaa..." both
  EXPECT_EQ(scores.nll[8], scores.nll[9]);
  EXPECT_NE(scores.nll[1], scores.nll[8]);
}

TEST(Score, GivesTheSameBytesHoweverItIsInterrupted) {
  expect_resumable(small_job(), 0);
  expect_resumable(small_job(), 1);
}

TEST(Score, GivesTheSameBytesHoweverItIsInterruptedInPieces) { expect_resumable(wide_job()); }

TEST(Score, GivesTheSameBytesWithTwoThreads) {
  JobText job = wide_job();
  job.threads = 2;
  EXPECT_EQ(run_with_restores(job, 1), run_straight(job));
}

TEST(Score, ShardsTogetherAreTheWhole) {
  const Scores whole = run_and_read(small_job());
  Scores joined;
  for (std::int64_t shard = 0; shard < 3; ++shard) {
    JobText part = small_job();
    part.shard = shard, part.shards = 3;
    const Scores scores = run_and_read(part);
    joined.sequence.insert(joined.sequence.end(), scores.sequence.begin(), scores.sequence.end());
    joined.nll.insert(joined.nll.end(), scores.nll.begin(), scores.nll.end());
  }
  EXPECT_EQ(joined.sequence, whole.sequence);
  EXPECT_EQ(joined.nll, whole.nll);
}

TEST(Score, PartsJoinedAreTheBytesOfTheWhole) {
  for (const int configuration : {0, 1})
    for (const std::int64_t shards : {2, 3})
      EXPECT_EQ(run_in_parts(small_job(), shards, configuration), run_straight(small_job(), configuration)) << shards;
}

TEST(Score, PartsThatDoNotFitTogetherAreRefused) {
  const TemporaryDirectory directory;
  JobText part = small_job();
  part.shards = 3, part.shard = 1;
  HostedJob job(part, directory.path());
  const auto c = job.configurations().at(0);
  const MappedState state(directory.path(), c.state_bytes);
  job.restore(0, state.state(), 0);
  job.save(0);
  const std::string path = directory.path();
  const char* parts[] = {path.c_str(), path.c_str(), path.c_str()};
  const pipefill_fill_parameter shape[] = {{"synthetic", "11"}, {"layers", "2"}, {"channels", "32"}, {"heads", "2"},
                                           {"context", "16"},   {"vocab", "64"}, {"batch", "4"}};
  pipefill_fill_setup setup{};
  setup.struct_bytes = sizeof setup;
  setup.name = "job";
  setup.directory = setup.base_directory = setup.shared_directory = path.c_str();
  setup.parameters = shape, setup.parameter_count = 7;
  setup.seed = 1, setup.threads = 1, setup.shards = 1;
  pipefill_fill_error error{};
  EXPECT_EQ(score_kind()->merge(&setup, "batch=4", parts, 3, &error), PIPEFILL_FILL_INVALID);
  EXPECT_NE(std::string(error.text).find("0 sequences of 11"), std::string::npos) << error.text;
}

TEST(Score, RefusesWhatIsNoJob) {
  const auto refusal = [](const std::string& key, const std::string& value) {
    JobText job = small_job();
    job.with.emplace_back(key, value);
    const TemporaryDirectory directory;
    try {
      HostedJob made(job, directory.path());
    } catch (const JobFailure& failure) {
      EXPECT_EQ(failure.result, PIPEFILL_FILL_INVALID) << failure.text;
      return failure.text;
    }
    return std::string("taken");
  };
  EXPECT_NE(refusal("layer", "2").find("did you mean layers"), std::string::npos);
  EXPECT_NE(refusal("layers", "3").find("takes one value"), std::string::npos);
  EXPECT_NE(refusal("batch", "0").find("'0'"), std::string::npos);
  EXPECT_NE(refusal("text", "/nowhere/*.txt").find("/nowhere"), std::string::npos);
  EXPECT_NE(refusal("checkpoint", "/nowhere").find("/nowhere"), std::string::npos);
  EXPECT_NE(refusal("source", "parquet").find("parquet"), std::string::npos);
}

TEST(Score, RefusesTheStateOfAnotherJob) {
  const TemporaryDirectory directory;
  HostedJob first(small_job(), directory.path());
  const MappedState state(directory.path(), first.configurations()[0].state_bytes);
  first.restore(0, state.state(), 0);
  JobText changed = small_job();
  changed.seed = 2;
  HostedJob second(changed, directory.path());
  try {
    second.restore(0, state.state(), 0);
    ADD_FAILURE() << "the state was taken";
  } catch (const JobFailure& failure) {
    EXPECT_EQ(failure.result, PIPEFILL_FILL_INVALID);
    EXPECT_NE(failure.text.find("has been changed"), std::string::npos) << failure.text;
  }
}

}  // namespace
}  // namespace pipefill::testing
