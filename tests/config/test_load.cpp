// Loading: what counts before what, overrides, units, names, files, and the layout against the number of ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "config/embedded_deck.hpp"
#include "config/keys.hpp"
#include "config/load.hpp"
#include "config/print.hpp"

namespace pipefill {
namespace {

std::string deck_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const DeckError& error) {
    return error.what();
  }
  return "";
}

TEST(Load, CommandLineBeforeFileBeforeDefaults) {
  const RunConfig config =
      load_deck_text("decks/small.yaml", "run:\n  steps: 7\n  seed: 3\n", {"run.seed=4", "parallel.layers=[3, 0, 1]"});
  EXPECT_EQ(config.run.steps, 7);
  EXPECT_EQ(config.run.seed, 4U);
  EXPECT_EQ(config.parallel.layers, (std::vector<int>{3, 0, 1}));
  EXPECT_EQ(config.model, ModelSection{});
  EXPECT_EQ(config.run.directory, "runs/small");
}

TEST(Load, ReadsEveryType) {
  const RunConfig config =
      load_deck_text("a.yaml",
                     "\xEF\xBB\xBF# decks may come from Windows\r\n"
                     "run: {directory: \"12\", max_time: 3:50:00, hang_timeout: 250ms}\r\n"
                     "model: {vocab: auto, tied: false, compute: bf16}\r\n"
                     "data:\r\n  source: bytes\r\n  files:\r\n    - /usr/share/*\r\n    - 'it''s \xC3\xA9'\r\n"
                     "optimizer: {learning_rate: 1e-3, beta1: .5, clip: 1., epsilon: 1E-6, decay: wsd}\r\n"
                     "device: {memory: 1.5GiB, threads: +2, wait: sleep}\r\n");
  EXPECT_EQ(config.run.directory, "12");
  EXPECT_EQ(config.run.max_time, from_seconds(13800));
  EXPECT_EQ(config.run.hang_timeout, Nanoseconds{250'000'000});
  EXPECT_EQ(config.model.vocab, 0);
  EXPECT_FALSE(config.model.tied);
  EXPECT_EQ(config.model.compute, ComputeType::bf16);
  EXPECT_EQ(config.data.files, (std::vector<std::string>{"/usr/share/*", "it's \xC3\xA9"}));
  EXPECT_EQ(config.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(config.optimizer.beta1, 0.5);
  EXPECT_EQ(config.optimizer.epsilon, 1e-6);
  EXPECT_EQ(config.optimizer.decay, LearningRateDecay::wsd);
  EXPECT_EQ(config.device.memory, (Bytes{1610612736}));
  EXPECT_EQ(config.device.threads, 2);
  EXPECT_EQ(config.device.wait, WaitChoice::sleep);
}

TEST(Load, AWordThatIsMeantAsTextStaysText) {
  const RunConfig config = load_embedded_deck({"run.directory=\"auto\""});
  EXPECT_EQ(config.run.directory, "auto");
  EXPECT_EQ(load_deck_text("a.yaml", print_deck(config)).run.directory, "auto");
}

TEST(Load, OverridesAreRefusedWithTheirText) {
  const auto refused = [](const std::string& argument) { return deck_error([&] { load_embedded_deck({argument}); }); };
  const auto start = [](const std::string& argument) { return "\ncommand line: " + argument + ": "; };
  for (const auto& [argument, message] : std::vector<std::pair<std::string, std::string>>{
           {"modle.layers=4", "modle.layers: unknown key; did you mean 'model.layers'?"},
           {"steps=4", "steps: unknown section; did you mean 'run.steps'?"},
           {"run.steps=1e3", "run.steps: expected an integer"},
           {"run.steps=", "run.steps: expected an integer from 1"},
           {"run.steps= 5", "run.steps: a value with spaces at its ends"},
           {"run.directory=a #b", "run.directory: a value with spaces at its ends or a comment needs quotes"},
           {"run.directory=a\n---\nb", "run.directory: more than one document"},
           {"data.files=[a", "data.files: a key must be a plain word, not a list or a map; is a bracket left open?"},
           {"model={layers: 2}", "model: a section; name a key of it, such as model.layers"},
           {"=4", "unknown section"},
           {"run.directory=12", "run.directory: expected text, got 12"}})
    EXPECT_NE(refused(argument).find(start(argument) + message), std::string::npos) << argument << "\n"
                                                                                    << refused(argument);
  EXPECT_NE(deck_error([] {
              load_embedded_deck({"run.steps=5", "run.steps=6"});
            }).find("given twice"),
            std::string::npos);
}

TEST(Load, ErrorsOfFileAndCommandLineComeTogether) {
  const std::string text = deck_error([] {
    load_deck_text("a.yaml", "run:\n  steps: x\nmodel:\n  hads: 3\n", {"run.seed=y", "log.evry=3"});
  });
  EXPECT_EQ(text.find("4 errors in the deck a.yaml"), 0U) << text;
}

TEST(Load, FilesThatAreNotThere) {
  for (const std::string& path : {std::string("/nowhere/deck.yaml"), std::string("/tmp")}) try {
      load_deck(path);
      FAIL();
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), ExitCode::missing_input);
      EXPECT_EQ(error.path(), path);
    }
}

TEST(Load, TheEmbeddedDeckIsInputsTiny) {
  const std::string path = std::string(PIPEFILL_SOURCE_DIR) + "/inputs/tiny.yaml";
  EXPECT_EQ(load_embedded_deck(), load_deck(path));
  std::ifstream file(path);
  EXPECT_EQ(embedded_deck(), std::string(std::istreambuf_iterator<char>(file), {}));
}

TEST(Load, EveryDeckOfInputsIsValid) {
  int decks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(PIPEFILL_SOURCE_DIR) + "/inputs"))
    if (entry.path().extension() == ".yaml") {
      EXPECT_EQ(deck_error([&] { load_deck(entry.path().string()); }), "");
      ++decks;
    }
  EXPECT_GE(decks, 1);
}

TEST(Validate, ChecksAStructThatNoDeckMade) {
  RunConfig config;
  EXPECT_NO_THROW(validate(config));
  config.optimizer.clip = std::numeric_limits<double>::quiet_NaN();
  config.model.layers = -3;
  const std::string text = deck_error([&] { validate(config); });
  EXPECT_NE(text.find("optimizer.clip"), std::string::npos);
  EXPECT_NE(text.find("model.layers"), std::string::npos);
}

TEST(ValidateForRanks, FillsInTheStagesOrSaysTheNumbers) {
  RunConfig config;
  config.parallel.replicas = 2;
  EXPECT_EQ(validate_for_ranks(config, 6).parallel.stages, 3);
  EXPECT_NE(deck_error([&] { validate_for_ranks(config, 5); }).find("5 ranks do not divide into 2 replicas"),
            std::string::npos);
  config.parallel.stages = 4;
  EXPECT_EQ(validate_for_ranks(config, 8).parallel.stages, 4);
  EXPECT_NE(deck_error([&] { validate_for_ranks(config, 6); }).find("4 stages x 2 replicas need 8 ranks, there are 6"),
            std::string::npos);
  config.schedule.microbatches = 32768;
  EXPECT_EQ(deck_error([&] { validate_for_ranks(config, 8); }), "");
  config.parallel.stages = 0;
  EXPECT_NE(deck_error([&] { validate_for_ranks(config, 66); }).find("32768 microbatches on 33 stages"),
            std::string::npos);
  EXPECT_NE(deck_error([&] { validate_for_ranks(config, 2050); }).find("1025 stages; at most 1024"), std::string::npos);
  config.parallel.layers = {2, 1, 1};
  EXPECT_EQ(validate_for_ranks(config, 6).parallel.stages, 3);
  EXPECT_NE(deck_error([&] { validate_for_ranks(config, 4); }), "");
}

}  // namespace
}  // namespace pipefill
