// train: the same numbers as the training code of the main job, and the same bytes however its chunks are interrupted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/temporary_directory.hpp"
#include "data/token_data.hpp"
#include "device/cpu/cpu_device.hpp"
#include "fill_jobs/train.hpp"
#include "job_host.hpp"
#include "model/adamw.hpp"
#include "model/stage.hpp"
#include "storage/h5_file.hpp"

namespace pipefill::testing {
namespace {

struct Example {
  ModelShape shape{2, 32, 2, 16, 64};
  std::int64_t microbatches = 1, microbatch_size = 2, steps = 2;

  JobText job() const {
    const auto n = [](std::int64_t value) { return std::to_string(value); };
    return {.kind = train_kind(),
            .with = {{"layers", n(shape.layers)},
                     {"channels", n(shape.channels)},
                     {"heads", n(shape.heads)},
                     {"context", n(shape.context)},
                     {"vocab", n(shape.vocab)},
                     {"tied", shape.tied ? "true" : "false"},
                     {"microbatches", n(microbatches)},
                     {"microbatch_size", n(microbatch_size)},
                     {"steps", n(steps)},
                     {"warm_up", "2"}}};
  }
};

struct Trained {
  std::map<std::string, std::vector<float>> weights;
  std::vector<double> losses, norms;
};

Trained run_and_read(const Example& example, const JobText& text) {
  const TemporaryDirectory directory;
  HostedJob job(text, directory.path());
  const auto c = job.configurations().at(0);
  EXPECT_EQ(c.samples, example.steps * example.microbatches * example.microbatch_size);
  const MappedState state(directory.path(), c.state_bytes);
  job.restore(0, state.state(), 0);
  for (std::int64_t chunk = 0; chunk < c.chunks; ++chunk) job.run(chunk);
  job.save(c.chunks);
  Trained trained;
  const H5File file = H5File::open(directory / "weights.h5");
  for (const TensorSpec& tensor : parameter_table(example.shape, cut_layers_by_cost(example.shape, 1)))
    trained.weights[tensor.name] = file.read<float>("/parameters/" + tensor.name);
  std::ifstream lines(directory / "loss.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    trained.losses.push_back(json.at("loss"));
    trained.norms.push_back(json.at("gradient_norm"));
  }
  return trained;
}

/// The same training by Stage and Adamw.
Trained train_on_stage(const Example& example) {
  CpuDevice device(1, Bytes{0});
  const ModelShape& shape = example.shape;
  const auto tokens_per_step = static_cast<double>(example.microbatches * example.microbatch_size * shape.context);
  StageSetup setup{.shape = shape,
                   .cut = cut_layers_by_cost(shape, 1),
                   .chunks = {{0}},
                   .microbatch_size = static_cast<int>(example.microbatch_size),
                   .gradient_scale = 1 / tokens_per_step,
                   .slots = {1},
                   .weight_slots = {},
                   .seed = 1};
  Stage stage(setup, device);
  Adamw adamw({}, stage, device);
  const TokenData data =
      open_data({.format = TokenFormat::synthetic, .files = {}, .vocab = shape.vocab, .seed = 1}, shape.context);
  const auto T = static_cast<std::size_t>(shape.context), B = static_cast<std::size_t>(example.microbatch_size);
  Trained trained;
  std::int64_t sample = 0;
  for (std::int64_t step = 1; step <= example.steps; ++step) {
    stage.begin_step();
    double loss = 0;
    for (int m = 0; m < example.microbatches; ++m) {
      std::vector<std::int32_t> inputs(B * T), targets(B * T), tokens(T + 1);
      for (std::size_t b = 0; b < B; ++b) {
        data.read_training(sample++, tokens);
        std::copy_n(tokens.begin(), T, inputs.begin() + static_cast<std::ptrdiff_t>(b * T));
        std::copy_n(tokens.begin() + 1, T, targets.begin() + static_cast<std::ptrdiff_t>(b * T));
      }
      stage.forward({0}, {m}, {inputs, targets}, {}, {}, [] {});
      loss += stage.loss({m});
      stage.backward({0}, {m}, {}, {}, [] {});
    }
    stage.add_tied_gradients();
    trained.losses.push_back(loss / tokens_per_step);
    trained.norms.push_back(global_norm(stage.table(), adamw.block_square_sums()));
    adamw.update(step, 3e-3 * std::min(1.0, static_cast<double>(step) / 2), clip_scale(trained.norms.back(), 1.0));
  }
  for (const StageTensor& tensor : stage.tensors())
    trained.weights[tensor.spec.name].assign(tensor.values.begin(), tensor.values.end());
  return trained;
}

void expect_the_stages_numbers(const Example& example) {
  const Trained found = run_and_read(example, example.job()), expected = train_on_stage(example);
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < found.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << "step " << i + 1;
    EXPECT_NEAR(found.norms[i], expected.norms[i], 1e-5 * expected.norms[i]) << "step " << i + 1;
  }
  ASSERT_EQ(found.weights.size(), expected.weights.size());
  // Over all weights together: AdamW blows up single elements whose gradient is all rounding (the biases of the keys),
  // and one tensor that is wrong is still a thousand times what is allowed.
  double difference = 0, size = 0;
  for (const auto& [name, values] : expected.weights) {
    const std::vector<float>& mine = found.weights.at(name);
    ASSERT_EQ(mine.size(), values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(static_cast<double>(mine[i]) - static_cast<double>(values[i]), 2);
      size += std::pow(static_cast<double>(values[i]), 2);
    }
  }
  EXPECT_LT(std::sqrt(difference), 1e-5 * std::sqrt(size));
}

TEST(Train, EqualsStageAndAdamw) { expect_the_stages_numbers({}); }

TEST(Train, EqualsStageAndAdamwWithMicrobatches) { expect_the_stages_numbers({.microbatches = 3, .steps = 3}); }

TEST(Train, EqualsStageAndAdamwWithAHeadOfItsOwn) {
  Example example{.microbatches = 2};
  example.shape.tied = false;
  expect_the_stages_numbers(example);
}

TEST(Train, EqualsStageAndAdamwWhereEveryPartIsCutInPieces) {
  expect_the_stages_numbers({.shape = {1, 256, 4, 64, 512}, .microbatches = 2, .microbatch_size = 3, .steps = 1});
}

TEST(Train, LearnsTheMarkovSource) {
  const Example example{.shape = {1, 32, 2, 16, 16}, .microbatch_size = 16, .steps = 200};
  JobText text = example.job();
  text.with.emplace_back("learning_rate", "0.01");
  const Trained trained = run_and_read(example, text);
  const double entropy =
      open_data({.format = TokenFormat::synthetic, .files = {}, .vocab = 16, .seed = 1}, 16).entropy_rate().value();
  double last = 0;
  for (std::size_t i = trained.losses.size() - 20; i < trained.losses.size(); ++i) last += trained.losses[i] / 20;
  EXPECT_GT(trained.losses.front(), entropy + 0.5);
  EXPECT_LT(last, entropy + 0.15);
}

TEST(Train, GivesTheSameBytesHoweverItIsInterrupted) {
  expect_resumable(Example{.steps = 3}.job());
  expect_resumable(Example{.microbatches = 3, .steps = 2}.job());
}

TEST(Train, GivesTheSameBytesHoweverItIsInterruptedInPieces) {
  expect_resumable(Example{.shape = {1, 256, 4, 64, 512}, .microbatches = 2, .microbatch_size = 3, .steps = 2}.job());
}

TEST(Train, SavesTheStepsThatAreWhole) {
  const Example example{.steps = 3};
  const TemporaryDirectory directory;
  HostedJob job(example.job(), directory.path());
  const auto c = job.configurations().at(0);
  const MappedState state(directory.path(), c.state_bytes);
  job.restore(0, state.state(), 0);
  const std::int64_t done = c.chunks - 1;  // the last step lacks its last update
  for (std::int64_t chunk = 0; chunk < done; ++chunk) job.run(chunk);
  job.save(done);
  const std::string saved = outputs_of(directory.path()).at("weights.h5");
  const Trained two = train_on_stage({.steps = 2});
  const H5File file = H5File::open(directory / "weights.h5");
  EXPECT_EQ(file.read_attribute<std::int64_t>("/", "step"), 2);
  const std::vector<float> mine = file.read<float>("/parameters/block.0.mlp.expand.weight");
  const std::vector<float>& expected = two.weights.at("block.0.mlp.expand.weight");
  for (std::size_t i = 0; i < mine.size(); ++i) ASSERT_NEAR(mine[i], expected[i], 1e-5);
}

TEST(Train, ThatDivergesIsNotTriedAgain) {
  Example example{.steps = 200};
  JobText text = example.job();
  text.with.emplace_back("learning_rate", "1000");
  text.with.emplace_back("clip", "0");
  try {
    run_and_read(example, text);
    GTEST_SKIP() << "did not diverge";
  } catch (const JobFailure& failure) {
    EXPECT_EQ(failure.result, PIPEFILL_FILL_INVALID);
    EXPECT_NE(failure.text.find("diverged in step"), std::string::npos) << failure.text;
  }
}

}  // namespace
}  // namespace pipefill::testing
