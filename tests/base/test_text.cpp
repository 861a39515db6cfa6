// base/text: sizes, times and near misses as users write them.
#include <gtest/gtest.h>

#include <vector>

#include "base/text.hpp"

namespace pipefill {
namespace {

TEST(Text, ParsesSizes) {
  EXPECT_EQ(parse_bytes("512MiB"), (Bytes{536870912}));
  EXPECT_EQ(parse_bytes("1.5GB"), (Bytes{1500000000}));
  EXPECT_EQ(parse_bytes("64 KiB"), (Bytes{65536}));
  EXPECT_EQ(parse_bytes("4096"), (Bytes{4096}));
  for (const char* bad : {"", "MiB", "5 mib", "-1", "1e30GB", "12XB", "nan", "inf"})
    EXPECT_FALSE(parse_bytes(bad)) << bad;
}

TEST(Text, ParsesDurations) {
  EXPECT_EQ(parse_duration("30s"), from_seconds(30));
  EXPECT_EQ(parse_duration("250ms"), Nanoseconds{250000000});
  EXPECT_EQ(parse_duration("3:50:00"), from_seconds(13800));
  EXPECT_EQ(parse_duration("1:30"), from_seconds(90));
  EXPECT_EQ(parse_duration("0.5h"), from_seconds(1800));
  for (const char* bad : {"", "30", "s", "1:75", "1:2:3:4", ":5", "5:", "-1s"})
    EXPECT_FALSE(parse_duration(bad)) << bad;
}

TEST(Text, NearestFindsTyposOnly) {
  const std::vector<std::string> names{"learning_rate", "microbatches", "stages"};
  EXPECT_EQ(edit_distance("learnig_rate", "learning_rate"), 1);
  EXPECT_EQ(edit_distance("stgaes", "stages"), 1);
  EXPECT_EQ(nearest("learnig_rate", names), "learning_rate");
  EXPECT_EQ(nearest("microbatch", names), "microbatches");
  EXPECT_FALSE(nearest("zzz", names));
}

}  // namespace
}  // namespace pipefill
