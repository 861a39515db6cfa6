// bad_decks.txt: every deck in it is refused, with exactly the errors listed: place, key and what the message must say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "config/load.hpp"

namespace pipefill {
namespace {

/// \n, \t, \r and \xNN of the table.
std::string unescape(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == 'n' || next == 't' || next == 'r') {
      result += next == 'n' ? '\n' : next == 't' ? '\t' : '\r';
      ++i;
    } else if (next == 'x') {
      result += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

struct Expected {
  std::string start;  ///< "bad.yaml:2:10: run.steps: "
  std::string part;
};

struct Case {
  int line = 0;
  std::string deck;
  std::vector<Expected> errors;
};

Expected parse_expected(const std::string& text) {
  const std::size_t first = text.find(' '), second = text.find(' ', first + 1);
  const std::string place = text.substr(0, first), key = unescape(text.substr(first + 1, second - first - 1));
  return {fmt::format("bad.yaml:{}: {}", place == "0:0" ? " default" : place, key == "-" ? "" : key + ": "),
          text.substr(second + 1)};
}

std::vector<Case> read_cases() {
  std::ifstream file(std::string(PIPEFILL_SOURCE_DIR) + "/tests/config/bad_decks.txt");
  std::vector<Case> cases;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::size_t arrow = line.rfind(" => ");
    if (arrow == std::string::npos || line.starts_with("# Decks")) continue;
    Case one{number, unescape(line.substr(0, arrow)), {}};
    std::string rest = line.substr(arrow + 4);
    for (std::size_t end; !rest.empty(); rest = end == std::string::npos ? "" : rest.substr(end + 4)) {
      end = rest.find(" ;; ");
      one.errors.push_back(parse_expected(rest.substr(0, end)));
    }
    cases.push_back(one);
  }
  return cases;
}

std::vector<std::string> error_lines(const std::string& deck) {
  try {
    load_deck_text("bad.yaml", deck);
  } catch (const DeckError& error) {
    std::vector<std::string> lines;
    const std::string text = error.what();
    for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
      end = std::min(text.find('\n', begin), text.size());
      if (const std::string line = text.substr(begin, end - begin); line.starts_with("bad.yaml:"))
        lines.push_back(line);
    }
    return lines;
  }
  return {};
}

TEST(BadDecks, EachIsRefusedWithAllItsErrors) {
  const std::vector<Case> cases = read_cases();
  ASSERT_GE(cases.size(), 150U);
  for (const Case& one : cases) {
    SCOPED_TRACE(fmt::format("bad_decks.txt:{}", one.line));
    const std::vector<std::string> lines = error_lines(one.deck);
    EXPECT_EQ(lines.size(), one.errors.size()) << fmt::format("{}", one.deck);
    for (std::size_t i = 0; i < std::min(lines.size(), one.errors.size()); ++i) {
      EXPECT_EQ(lines[i].substr(0, one.errors[i].start.size()), one.errors[i].start) << lines[i];
      EXPECT_NE(lines[i].find(one.errors[i].part), std::string::npos) << one.errors[i].part << "\nis not in\n"
                                                                      << lines[i];
    }
  }
}

TEST(BadDecks, LineAndCaretAreShown) {
  try {
    load_deck_text("bad.yaml", "run:\n  directory: \"\xC3\xA9\"\nmodel:\n  \xC3\xA9: [\xC3\xA9, &a b]\n");
    FAIL();
  } catch (const DeckError& error) {
    EXPECT_NE(std::string(error.what()).find("    4 |   \xC3\xA9: [\xC3\xA9, &a b]\n      |          ^"),
              std::string::npos)
        << error.what();
    EXPECT_EQ(error.code(), ExitCode::deck);
  }
}

TEST(BadDecks, DeepLargeAndManyErrorsEndQuickly) {
  EXPECT_EQ(error_lines("run: " + std::string(200000, '[')).size(), 1U);
  EXPECT_EQ(error_lines("run: " + std::string(200000, '{')).size(), 1U);
  EXPECT_EQ(error_lines(std::string((1U << 20) + 1, ' ')).size(), 1U);
  std::string many = "run:\n";
  for (int i = 0; i < 1000; ++i) many += "  steps: 5\n";
  EXPECT_EQ(error_lines(many).size(), 50U);  // the list ends there
}

}  // namespace
}  // namespace pipefill
