// generate: the likeliest token is that of a plain forward without a cache; draws follow the model's distribution; the
// same texts however its chunks are interrupted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "device/cpu/cpu_device.hpp"
#include "fill_jobs/generate.hpp"
#include "fill_jobs/sample_token.hpp"
#include "job_host.hpp"
#include "model/stage.hpp"

namespace pipefill::testing {
namespace {

constexpr ModelShape kShape{2, 32, 2, 24, 128};

JobText small_job(const std::string& temperature = "1") {
  return {.kind = generate_kind(),
          .with = {{"layers", "2"},
                   {"channels", "32"},
                   {"heads", "2"},
                   {"context", "24"},
                   {"vocab", "128"},
                   {"tokens", "7"},
                   {"temperature", temperature},
                   {"batch", "2"},
                   {"batch", "1"},
                   {"prompts", "a longer prompt"},
                   {"prompts", "b"},
                   {"prompts", "short"},
                   {"prompts", "brief"},
                   {"prompts", "one more"}}};
}

/// Prefill in pieces, a token in several chunks, logits in several.
JobText wide_job() {
  std::string long_prompt = "4999 4 17", other = "1 2 3 4000";
  for (int i = 0; i < 120; ++i) long_prompt += " " + std::to_string(i * 40), other += " 8";
  return {.kind = generate_kind(),
          .with = {{"layers", "2"},
                   {"channels", "256"},
                   {"heads", "4"},
                   {"context", "200"},
                   {"vocab", "5000"},
                   {"tokens", "3"},
                   {"batch", "2"},
                   {"prompt_tokens", long_prompt},
                   {"prompt_tokens", other},
                   {"prompt_tokens", "7 7 7 7 7"}}};
}

std::vector<nlohmann::json> lines_of(const Outputs& outputs) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(outputs.at("texts.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// The likeliest next token by a stage without a cache: the candidate with the least loss as last target.
std::int32_t likeliest(std::vector<std::int32_t> tokens) {
  ModelShape shape = kShape;
  shape.context = static_cast<int>(tokens.size());  // a table of fewer positions begins with the same ones
  CpuDevice device(1, Bytes{0});
  Stage stage({.shape = shape,
               .cut = cut_layers_by_cost(shape, 1),
               .chunks = {{0}},
               .slots = {1},
               .weight_slots = {},
               .seed = 1},
              device);
  std::vector<double> losses;
  for (std::int32_t candidate = 0; candidate < shape.vocab; ++candidate) {
    std::vector<std::int32_t> targets(tokens.begin() + 1, tokens.end());
    targets.push_back(candidate);
    stage.forward(
        {0}, {0}, {tokens, targets}, {}, {}, [] {}, ForwardMode::validation);
    losses.push_back(stage.loss({0}));
  }
  return static_cast<std::int32_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
}

TEST(Generate, TakesTheLikeliestTokenOfAPlainForward) {
  for (int configuration = 0; configuration < 2; ++configuration) {
    const auto lines = lines_of(run_straight(small_job("0"), configuration));
    ASSERT_EQ(lines.size(), 5U);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i]["index"], i);
      EXPECT_EQ(lines[i]["prompt"], small_job().with[9 + i].second);
      std::vector<std::int32_t> known = lines[i]["prompt_tokens"];
      for (const std::int32_t token : lines[i]["tokens"]) {
        EXPECT_EQ(token, likeliest(known)) << "prompt " << i << ", position " << known.size();
        known.push_back(token);
      }
      EXPECT_EQ(known.size(), std::string(lines[i]["prompt"]).size() + 7);
    }
  }
}

TEST(Generate, TopOfOneIsTheLikeliest) {
  JobText job = small_job("5");
  job.with.emplace_back("top_k", "1");
  EXPECT_EQ(run_straight(job), run_straight(small_job("0")));
}

TEST(Generate, SeedsGiveDifferentTextsAndTheSameOneTheSame) {
  JobText other = small_job();
  other.with.emplace_back("seed", "1");
  EXPECT_EQ(run_straight(small_job()), run_straight(other));  // the host's seed is 1
  other.with.back().second = "2";
  EXPECT_NE(run_straight(small_job()), run_straight(other));
}

TEST(Generate, GivesTheSameTextsHoweverItIsInterrupted) {
  expect_resumable(small_job(), 0);
  expect_resumable(small_job(), 1);
}

TEST(Generate, GivesTheSameTextsHoweverItIsInterruptedInPieces) { expect_resumable(wide_job()); }

TEST(Generate, ShardsTogetherAreTheWhole) {
  const auto whole = lines_of(run_straight(small_job()));
  std::vector<nlohmann::json> joined;
  for (std::int64_t shard = 0; shard < 2; ++shard) {
    JobText part = small_job();
    part.shard = shard, part.shards = 2;
    const auto lines = lines_of(run_straight(part));
    joined.insert(joined.end(), lines.begin(), lines.end());
  }
  std::sort(joined.begin(), joined.end(), [](const auto& a, const auto& b) { return a["index"] < b["index"]; });
  EXPECT_EQ(joined, whole);
}

TEST(Generate, PartsJoinedAreTheBytesOfTheWhole) {
  for (const int configuration : {0, 1})
    EXPECT_EQ(run_in_parts(small_job(), 2, configuration), run_straight(small_job(), configuration));
}

TEST(Generate, RefusesPromptsThatDoNotFit) {
  const auto refusal = [](JobText job) {
    try {
      run_straight(job);
    } catch (const JobFailure& failure) {
      EXPECT_EQ(failure.result, PIPEFILL_FILL_INVALID);
      return failure.text;
    }
    return std::string("taken");
  };
  JobText job = small_job();
  job.with[5].second = "11";
  EXPECT_NE(refusal(job).find("beyond the model's context of 24"), std::string::npos);
  job = small_job();
  job.with[9].second = "\xc3\xa4";
  EXPECT_NE(refusal(job).find("has the token 195"), std::string::npos);
  job = small_job();
  job.with.emplace_back("prompt_tokens", "1");
  EXPECT_NE(refusal(job).find("exactly one of"), std::string::npos);
}

TEST(SampleToken, FollowsTheDistribution) {
  const std::vector<float> logits{0.0F, std::log(2.0F), std::log(5.0F), -INFINITY};
  constexpr int kDraws = 8000;
  const auto shares = [&](const Sampling& how) {
    std::vector<double> share(logits.size());
    for (int i = 0; i < kDraws; ++i) share[static_cast<std::size_t>(sample_token(logits, how, 3, i))] += 1.0 / kDraws;
    return share;
  };
  const auto expect = [](const std::vector<double>& found, const std::vector<double>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i)  // five standard deviations
      EXPECT_NEAR(found[i], expected[i], 5 * std::sqrt(expected[i] * (1 - expected[i]) / kDraws)) << i;
  };
  expect(shares({.temperature = 1}), {1. / 8, 2. / 8, 5. / 8, 0});
  expect(shares({.temperature = 0.5}), {1. / 30, 4. / 30, 25. / 30, 0});
  expect(shares({.temperature = 1, .top_k = 2}), {0, 2. / 7, 5. / 7, 0});
  std::vector<std::int32_t> first, second;
  for (int position = 0; position < 50; ++position) {
    first.push_back(sample_token(logits, {}, 0, position));
    second.push_back(sample_token(logits, {}, 1, position));
  }
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace pipefill::testing
