#include "engine/metrics.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"

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
    throw FileError(ExitCode::cannot_create, path.string(), system_text("cannot open for appending", errno));
  const off_t end = whole_lines(descriptor_);
  if (ftruncate(descriptor_, end) == 0 && lseek(descriptor_, end, SEEK_SET) == end) return;
  const int error = errno;
  close(descriptor_);
  throw FileError(ExitCode::cannot_create, path.string(), system_text("cannot cut off half a line", error));
}

MetricsFile::~MetricsFile() { close(descriptor_); }

std::string MetricsFile::append(const nlohmann::json& line) {
  struct stat info {};
  if (fstat(descriptor_, &info) == 0 && info.st_nlink == 0) return "the file was removed while the run writes to it";
  const std::string text = line.dump() + "\n";
  const off_t start = lseek(descriptor_, 0, SEEK_CUR);
  const ssize_t done = write(descriptor_, text.data(), text.size());
  if (done == static_cast<ssize_t>(text.size())) return {};
  const int error = done < 0 ? errno : ENOSPC;
  // Half a line would spoil the next one too.
  if (ftruncate(descriptor_, start) != 0 || lseek(descriptor_, start, SEEK_SET) != start)
    return system_text("cannot write, and half a line is left", error);
  return system_text("cannot write", error);
}

}  // namespace pipefill
