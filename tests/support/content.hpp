// A whole file as text.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace pipefill::testing {

/// Empty for a file that is not there.
inline std::string content(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace pipefill::testing
