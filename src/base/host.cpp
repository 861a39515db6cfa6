#include "base/host.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace pipefill {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string process_stat(long pid) {
  std::string line;
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::getline(file, line, '\0');
  const std::size_t name_end = line.rfind(')');  // the name itself may hold blanks, parentheses and line feeds
  return name_end == std::string::npos || name_end + 2 > line.size() ? "" : line.substr(name_end + 2);
}

}  // namespace pipefill
