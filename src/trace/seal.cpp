// A seal is "\npipefill-seal-1 <32 hex digits of XXH3-128> <16 decimal digits: bytes before the seal>\n".
#include "trace/seal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/error.hpp"

namespace pipefill {
namespace {

constexpr std::string_view kMark = "\npipefill-seal-1 ";
constexpr std::size_t kSealBytes = kMark.size() + 32 + 1 + 16 + 1;

std::string seal_of(const FileDigest& content) {
  return fmt::format("{}{} {:016d}\n", kMark, content.hash, content.bytes);
}

}  // namespace

void append_seal(const std::filesystem::path& file, const FileDigest& content, Durability durability) {
  FileDescriptor descriptor(::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (descriptor.get() < 0) throw FileError(ExitCode::input_output, file, system_text("cannot seal", errno));
  const std::string seal = seal_of(content);
  write_all(descriptor.get(), std::as_bytes(std::span(seal)), file);
  if (durability == Durability::synced && ::fsync(descriptor.get()) != 0) {
    throw FileError(ExitCode::input_output, file, system_text("cannot seal", errno));
  }
  descriptor.close(file);
}

void check_seal(const std::filesystem::path& file) {
  const FileDescriptor descriptor = open_to_read(file);
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0) {
    throw FileError(ExitCode::input_output, file, system_text("cannot read", errno));
  }
  std::array<char, kSealBytes> found{};
  const std::int64_t content = info.st_size - static_cast<std::int64_t>(kSealBytes);
  if (content < 0 || ::pread(descriptor.get(), found.data(), kSealBytes, content) != static_cast<ssize_t>(kSealBytes) ||
      std::string_view(found.data(), kMark.size()) != kMark) {
    throw FileError(ExitCode::damaged_data, file,
                    "does not end in pipefill's seal: cut off, changed by another program, or not a trace of pipefill");
  }
  if (seal_of(digest_range(descriptor.get(), 0, content, file)) != std::string_view(found.data(), kSealBytes)) {
    throw FileError(ExitCode::damaged_data, file,
                    "is damaged: its content does not have the hash that its seal states");
  }
}

}  // namespace pipefill
