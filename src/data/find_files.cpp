// glob(3), sorted and freed of duplicates.
#include "data/find_files.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "base/error.hpp"

namespace pipefill {

namespace {

using Identity = std::pair<dev_t, ino_t>;

struct Match {
  std::string path;
  Identity identity;
};

/// Adds the path if it is a file. Broken links and directories are not.
bool add_file(const std::string& path, std::vector<Match>& matches) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) return false;
  matches.push_back({path, {status.st_dev, status.st_ino}});
  return true;
}

void match(const std::string& pattern, std::vector<Match>& matches) {
  if (add_file(pattern, matches)) return;
  const auto is_fatal = [](const char*, int reason) { return reason == ENOENT || reason == ENOTDIR ? 0 : 1; };
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_TILDE, is_fatal, &found);
  const std::unique_ptr<glob_t, decltype(&::globfree)> owner(&found, &::globfree);
  if (result != 0 && result != GLOB_NOMATCH)
    throw FileError(ExitCode::input_output, pattern, "a directory of this pattern cannot be read");
  bool any = false;
  for (std::size_t i = 0; result == 0 && i < found.gl_pathc; ++i) any |= add_file(found.gl_pathv[i], matches);
  if (!any)
    throw FileError(ExitCode::missing_input, pattern, "matches no file; check data.files and the working directory");
}

}  // namespace

std::vector<std::string> find_files(const std::vector<std::string>& patterns) {
  std::vector<Match> matches;
  for (const std::string& pattern : patterns) match(pattern, matches);
  std::ranges::sort(matches, {}, &Match::path);  // std::string compares as unsigned bytes, in no locale
  std::vector<std::string> files;
  std::set<Identity> seen;
  for (const Match& m : matches)
    if (seen.insert(m.identity).second) files.push_back(m.path);
  return files;
}

}  // namespace pipefill
