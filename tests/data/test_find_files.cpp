// Globs: order, duplicates, links, and what is not there.
#include "data/find_files.hpp"
#include "data_files.hpp"

namespace pipefill {
namespace {

using namespace test;
using FindFiles = DataFiles;

TEST_F(FindFiles, sorts_bytewise_and_lists_each_file_once) {
  for (const char* name : {"b", "a", "Z", "\xc3\xa9", "a.b"}) write_ramp(name, 1);
  const std::vector<std::string> expected{path("Z"), path("a"), path("a.b"), path("b"), path("\xc3\xa9")};
  EXPECT_EQ(find_files({path("*")}), expected);
  EXPECT_EQ(find_files({path("b"), path("*"), path("a*"), path("a")}), expected);
}

TEST_F(FindFiles, a_link_is_not_a_second_copy) {
  write_ramp("GPL-3", 1);
  std::filesystem::create_symlink("GPL-3", path("GPL"));
  std::filesystem::create_hard_link(path("GPL-3"), path("hard"));
  std::filesystem::create_directory(path("directory"));
  std::filesystem::create_symlink("nowhere", path("broken"));
  EXPECT_EQ(find_files({path("*")}), std::vector<std::string>{path("GPL")});
}

TEST_F(FindFiles, a_file_that_exists_is_taken_literally) {
  write_ramp("part[1].txt", 1);
  write_ramp("part1.txt", 1);
  EXPECT_EQ(find_files({path("part[1].txt")}), std::vector<std::string>{path("part[1].txt")});
}

TEST_F(FindFiles, nothing_matched_is_missing_input) {
  std::filesystem::create_directory(path("directory"));
  for (const char* pattern : {"*.txt", "none", "directory", "none/*"})
    expect_error(ExitCode::missing_input, {path(pattern), "matches no file"},
                 [&] { (void)find_files({path(pattern)}); });
  write_ramp("a", 1);
  expect_error(ExitCode::missing_input, {path("*.txt")}, [&] { (void)find_files({path("a"), path("*.txt")}); });
}

}  // namespace
}  // namespace pipefill
