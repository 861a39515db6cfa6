// The table of keys: complete, printed so that it loads back, and equal to the committed reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <variant>

#include "config/keys.hpp"
#include "config/load.hpp"
#include "config/print.hpp"

namespace pipefill {
namespace {

/// Some value that the key allows, without asking the code under test.
void randomise(const Key& key, RunConfig& config, std::mt19937_64& random) {
  const double high = std::min(key.range.high, 1e9), low = std::max(key.range.low, -1e9);
  const auto number = [&] { return low + std::ldexp(static_cast<double>(random() >> 11), -53) * (high - low); };
  const auto text = [&] {
    static const std::string alphabet = "aZ09_./-: #'\"\\{}[],&*!|>%@`~=?\n\t\x01\x7f";
    std::string result = "\xC3\xA9";
    if (random() % 2 == 0) result = "1e";
    for (std::size_t length = random() % 8; length > 0; --length) result += alphabet[random() % alphabet.size()];
    return result;
  };
  std::visit(
      [&](auto member) {
        using Member = decltype(member);
        if constexpr (std::is_same_v<Member, EnumField>) {
          member.set(static_cast<int>(random() % key.names.size()));
        } else if constexpr (std::is_same_v<Member, bool*>) {
          *member = random() % 2 == 0;
        } else if constexpr (std::is_same_v<Member, std::string*>) {
          if (key.path != "schedule.name") *member = text();
        } else if constexpr (std::is_same_v<Member, std::vector<std::string>*>) {
          for (std::size_t i = random() % 3; i > 0; --i) member->push_back(text());
        } else if constexpr (std::is_same_v<Member, std::vector<int>*>) {
          for (std::size_t i = random() % 3; i > 0; --i) member->push_back(static_cast<int>(number()));
        } else if constexpr (std::is_same_v<Member, Nanoseconds*>) {
          *member = Nanoseconds{static_cast<std::int64_t>(1e9 * number()) + 1};
          if (random() % 2 == 0) *member = from_seconds(std::ceil(number() / 60) * 60);
        } else if constexpr (std::is_same_v<Member, Bytes*>) {
          *member = Bytes{static_cast<std::int64_t>(number())};
          if (random() % 2 == 0) member->count = (member->count / 1048576 + 1) * 1048576;
        } else {
          *member = static_cast<std::remove_pointer_t<Member>>(number());
        }
      },
      key.field(config));
}

/// Brings keys that belong together into agreement, so that only printing and reading are at stake.
void reconcile(RunConfig& config) {
  config.model.channels = config.model.heads;
  config.model.layers = 1 + config.model.layers % 10;
  if (config.model.heads > 1000) config.model.heads = config.model.channels = 1000;
  config.model.vocab = 0;
  const bool synthetic = config.data.source == TokenFormat::synthetic;
  if (synthetic) config.data.files.clear();
  if (!synthetic && config.data.files.empty()) config.data.files = {"x y"};
  config.schedule.microbatches = 1 + config.schedule.microbatches % 1000;  // a step fits 64-bit counts
  config.schedule.microbatch_size = 1 + config.schedule.microbatch_size % 100;
  config.model.context = 1 + config.model.context % 1000;
  config.parallel.layers.clear();
  if (config.parallel.stages > 100) config.parallel.stages = 0;
}

TEST(Print, LoadsBackToTheSameRun) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    RunConfig config;
    for (const Key& key : deck_keys()) randomise(key, config, random);
    reconcile(config);
    const std::string text = print_deck(config);
    RunConfig back;
    ASSERT_NO_THROW(back = load_deck_text("printed.yaml", text)) << text;
    ASSERT_TRUE(back == config) << text << "\n" << print_deck(back);
  }
}

TEST(Print, TheDefaultsPrintWithAllKeys) {
  const RunConfig config = load_embedded_deck();
  EXPECT_EQ(load_deck_text("x.yaml", print_deck(config)), config);
}

TEST(Keys, AreUniqueDocumentedAndHaveValidDefaults) {
  std::set<std::string> paths;
  RunConfig defaults;
  std::set<const void*> members;
  for (const Key& key : deck_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_FALSE(key.help.empty()) << key.path;
    EXPECT_EQ(check_range(key, defaults), "") << key.path;
    EXPECT_EQ(find_key(key.path), &key);
    std::visit(
        [&](auto member) {
          if constexpr (std::is_pointer_v<decltype(member)>) {
            EXPECT_TRUE(members.insert(member).second) << key.path;
          }
          if constexpr (std::is_same_v<decltype(member), int*>) {
            EXPECT_LT(key.range.high, 2147483648.0) << key.path;
          }
        },
        key.field(defaults));
  }
  EXPECT_EQ(deck_sections(), (std::vector<std::string>{"run", "model", "data", "parallel", "schedule", "optimizer",
                                                       "checkpoint", "trace", "fill", "device", "log"}));
}

TEST(Keys, TheReferenceIsTheTable) {
  std::ifstream file(std::string(PIPEFILL_SOURCE_DIR) + "/docs/deck.md");
  EXPECT_EQ(deck_reference(), std::string(std::istreambuf_iterator<char>(file), {}))
      << "make it anew: pipefill check --reference > docs/deck.md";
}

}  // namespace
}  // namespace pipefill
