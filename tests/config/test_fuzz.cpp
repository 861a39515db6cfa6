// Mutations of a good deck and of overrides: each loads or is a DeckError, and whatever loads is valid and prints back.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "config/load.hpp"
#include "config/print.hpp"

namespace pipefill {
namespace {

const std::vector<std::string> kPieces{"\t",
                                       "\n",
                                       "- ",
                                       ": ",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       "&a ",
                                       "*a",
                                       "<<: ",
                                       "!!str ",
                                       "---\n",
                                       "...\n",
                                       "# ",
                                       "\"",
                                       "'",
                                       "|\n",
                                       ">\n",
                                       "? ",
                                       "%",
                                       "@",
                                       "`",
                                       "\r",
                                       "\r\n",
                                       "0x",
                                       "1e",
                                       "~",
                                       "true",
                                       std::string(1, '\0'),
                                       "\x04",
                                       "\xff",
                                       "\xC3\xA9",
                                       "\xE2\x80\xA8",
                                       "\xC2\x85",
                                       "\xEF\xBB\xBF",
                                       "steps",
                                       "  ",
                                       "    ",
                                       "-",
                                       "99999999999999999999",
                                       ".",
                                       "e",
                                       "_",
                                       "inf",
                                       "nan",
                                       "auto"};

std::string mutate(std::string text, std::mt19937& random) {
  for (unsigned changes = 1 + random() % 4; changes > 0 && !text.empty(); --changes) {
    const std::size_t at = random() % text.size(), length = 1 + random() % 12;
    switch (random() % 6) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, kPieces[random() % kPieces.size()]);
        break;
      case 2:
        text[at] = static_cast<char>(random() % 256);
        break;
      case 3:
        text.insert(at, text.substr(random() % text.size(), length));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        text.replace(at, length, kPieces[random() % kPieces.size()]);
    }
  }
  return text;
}

/// 1 when it loaded.
int load_or_refuse(const std::string& deck, const std::vector<std::string>& overrides) {
  try {
    const RunConfig config = load_deck_text("fuzz.yaml", deck, overrides);
    EXPECT_NO_THROW(validate(config));
    EXPECT_TRUE(load_deck_text("again.yaml", print_deck(config)) == config) << print_deck(config);
    return 1;
  } catch (const DeckError& error) {
    EXPECT_NE(std::string(error.what()).find("in the deck fuzz.yaml"), std::string::npos);
    return 0;
  }
}

TEST(Fuzz, MutatedDecksLoadOrAreRefused) {
  RunConfig config;
  config.run.directory = "runs/fuzz \xC3\xA9";
  config.parallel.layers = {1, 2, 1};
  const std::string good = print_deck(config);
  const std::string small =
      "run: {steps: 5, directory: \"a b\"}\nparallel:\n  layers:\n    - 4\nmodel:\n  tied: true # yes\n";
  ASSERT_EQ(load_or_refuse(good, {}), 1);
  ASSERT_EQ(load_or_refuse(small, {}), 1);
  std::mt19937 random(1);
  int loaded = 0;
  constexpr int kRounds = 4000;
  for (int round = 0; round < kRounds; ++round)
    loaded += load_or_refuse(mutate(round % 4 == 0 ? good : small, random), {});
  EXPECT_GT(loaded, kRounds / 100);  // the mutations are neither all harmless nor all fatal
  EXPECT_LT(loaded, kRounds / 2);
}

TEST(Fuzz, MutatedOverridesLoadOrAreRefused) {
  std::mt19937 random(2);
  int loaded = 0;
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round)
    loaded += load_or_refuse("run:\n  steps: 5\n",
                             {mutate("parallel.layers=[1, 2, 1]", random), mutate("run.directory=\"x y\"", random)});
  EXPECT_LT(loaded, kRounds / 2);
}

}  // namespace
}  // namespace pipefill
