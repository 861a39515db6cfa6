#include "engine/metrics.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.hpp"

namespace pipefill {
namespace {

/// Length of the file up to and including its last line feed.
off_t whole_lines(int descriptor) {
  off_t end = lseek(descriptor, 0, SEEK_END);
  char byte = 0;
  while (end > 0 && (pread(descriptor, &byte, 1, end - 1) != 1 || byte != '\n')) --end;
  return end;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path)
    : descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0)
    throw FileError(ExitCode::cannot_create, path.string(),
                    fmt::format("cannot open for appending: {}", std::strerror(errno)));
  const off_t end = whole_lines(descriptor_);
  if (ftruncate(descriptor_, end) != 0 || lseek(descriptor_, end, SEEK_SET) != end) ++failed_writes_;
}

MetricsFile::~MetricsFile() { close(descriptor_); }

void MetricsFile::append(const nlohmann::json& line) {
  const std::string text = line.dump() + "\n";
  const off_t start = lseek(descriptor_, 0, SEEK_CUR);
  if (write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size())) return;
  ++failed_writes_;  // half a line would spoil the next one too
  if (ftruncate(descriptor_, start) != 0 || lseek(descriptor_, start, SEEK_SET) != start) ++failed_writes_;
}

}  // namespace pipefill
