// Strict YAML: the traps of yaml-cpp stay refused (tests/config/bad_decks.txt has many more), positions are right, and
// typed values have one spelling.
#include <gtest/gtest.h>

#include <string>

#include "storage/strict_yaml.hpp"
#include "storage/utf8.hpp"
#include "storage/yaml_value.hpp"

namespace pipefill {
namespace {

YamlNode scalar(const std::string& text) { return parse_yaml(text).root; }

TEST(StrictYaml, ReadsATreeWithPositions) {
  const YamlDocument document = parse_yaml("# head\na:\n  b: [1, 'x']\n  c: \"\xC3\xA9\"\n");
  ASSERT_TRUE(document.problems.empty());
  ASSERT_EQ(document.root.entries.size(), 1U);
  const YamlNode& a = document.root.entries[0].value;
  ASSERT_EQ(a.entries.size(), 2U);
  EXPECT_EQ(a.entries[0].key_mark, (TextMark{3, 3}));
  const YamlNode& b = a.entries[0].value;
  ASSERT_EQ(b.items.size(), 2U);
  EXPECT_EQ(b.items[0].kind, YamlNode::Kind::plain);
  EXPECT_EQ(b.items[1].kind, YamlNode::Kind::quoted);
  EXPECT_EQ(b.items[1].mark, (TextMark{3, 10}));
  EXPECT_EQ(a.entries[1].value.text, "\xC3\xA9");
}

TEST(StrictYaml, NothingAfterTheFirstDocumentIsLost) {
  for (const char* text : {"- a\nb: c\n", "a: 1\n---\nb: 2\n", "a: 1\n...\nb: 2\n", "[a]\nb: c\n", "{a: 1}\nb: 2\n",
                           "\"a\"\nb: 2\n", "{a: 1} {b: 2}\n", "[a] ]\n", "a: 1\n--- \n", "{a: 1}}\n"})
    EXPECT_FALSE(parse_yaml(text).problems.empty()) << text;
  for (const char* text : {"a: 1\n", "---\na: 1\n", "a: 1\n...\n", "a: 1", "a: 1\n# end\n\n"})
    EXPECT_TRUE(parse_yaml(text).problems.empty()) << text;
}

TEST(StrictYaml, DepthIsLimitedExactly) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_TRUE(parse_yaml(nested(kMaxYamlDepth)).problems.empty());
  EXPECT_EQ(parse_yaml(nested(kMaxYamlDepth + 1)).problems.size(), 1U);
}

TEST(YamlValue, IntegersHaveOneSpelling) {
  EXPECT_EQ(read_integer(scalar("0")).value, 0);
  EXPECT_EQ(read_integer(scalar("-9223372036854775808")).value, INT64_MIN);
  EXPECT_EQ(read_integer(scalar("+12")).value, 12);
  for (const char* bad :
       {"010", "1e3", "1_000", "0x10", "1.0", "'1'", "true", "9223372036854775808", "+-1", "- 1", "1 2"})
    EXPECT_FALSE(read_integer(scalar(bad)).value) << bad;
}

TEST(YamlValue, NumbersAreFinite) {
  EXPECT_EQ(read_number(scalar("1e-3")).value, 1e-3);
  EXPECT_EQ(read_number(scalar("-.5")).value, -0.5);
  EXPECT_EQ(read_number(scalar("3")).value, 3.0);
  for (const char* bad :
       {".nan", ".inf", "1e999", "1e-999", "\"1e-3\"", "010.0", "1e", "e5", "0x1p3", "1.2.3", "infinity"})
    EXPECT_FALSE(read_number(scalar(bad)).value) << bad;
}

TEST(YamlValue, TextThatOthersReadAsSomethingElseNeedsQuotes) {
  for (const char* good : {"1f1b", "a b", "x:y", "/usr/*", "'12'", "\"yes\"", "1.2.3", "e5"})
    EXPECT_TRUE(read_text(scalar(good)).value) << good;
  for (const char* bad :
       {"12", "1e3", "0b1", "010", "1_0", "12:30", "yes", "Off", "TRUE", "Null", ".inf", "-.5", "[a]"})
    EXPECT_FALSE(read_text(scalar(bad)).value) << bad;
}

TEST(YamlValue, WrittenTextReadsBack) {
  for (const std::string text :
       {"a", "runs/tiny", "12",       "yes",  "",  " a ", "a: b", "a #b", "\"", "\\", "\n\t\x01\x7f",
        "-", "[",         "\xC3\xA9", "null", "~", "1e3", "---",  "...",  "@",  "%a", "a,b"})
    EXPECT_EQ(read_text(scalar(write_text(text))).value, text) << write_text(text);
  EXPECT_EQ(write_text("runs/tiny-2_x.yaml"), "runs/tiny-2_x.yaml");
}

TEST(Utf8, RefusesWhatIsNot) {
  EXPECT_FALSE(find_invalid_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
  EXPECT_EQ(count_characters("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), 4);
  for (const std::string bad :
       {"\x80", "\xC3", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xFE"})
    EXPECT_EQ(find_invalid_utf8("a" + bad), 1U);
}

}  // namespace
}  // namespace pipefill
