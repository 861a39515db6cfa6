// Checked POSIX files and the write-sync-rename sequence; see atomic_file.hpp.
#include "storage/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace pipefill {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";

/// A name of its own for every writer: ranks and threads may replace the same file at the same time.
std::string temporary_name(const std::string& file) {
  return fmt::format(".{}.{}-{}{}", file, ::gettid(), now().count(), kTemporarySuffix);
}

std::string directory_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

bool disk_trouble(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT || error_number == EIO || error_number == EFBIG;
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileDescriptor::close(const std::string& path) {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) != 0 && errno != EINTR) {
    throw FileError(ExitCode::input_output, path, system_text("cannot close", errno));
  }
}

std::string system_text(std::string_view what, int error_number) {
  std::string_view advice;
  switch (error_number) {
    case ENOSPC:
      advice = " (the disk is full: free some space or choose another run.directory)";
      break;
    case EDQUOT:
      advice = " (your quota is used up: free some space or choose another run.directory)";
      break;
    case EFBIG:
      advice = " (larger than the file size limit: see `ulimit -f`)";
      break;
    case EIO:
      advice = " (the device reports an error: what was written may be lost)";
      break;
    case EROFS:
      advice = " (the file system is mounted read-only)";
      break;
    case EACCES:
    case EPERM:
      advice = " (check the permissions of the file and its directory)";
      break;
    default:
      break;
  }
  return fmt::format("{}: {}{}", what, std::generic_category().message(error_number), advice);
}

FileDescriptor open_to_read(const std::string& path) {
  // O_NONBLOCK: a pipe in the place of a file is refused later, not waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const ExitCode code = errno == ENOENT || errno == ENOTDIR ? ExitCode::missing_input : ExitCode::input_output;
    throw FileError(code, path, system_text("cannot open", errno));
  }
  return FileDescriptor(descriptor);
}

FileDescriptor create_exclusive(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    const ExitCode code = disk_trouble(errno) ? ExitCode::input_output : ExitCode::cannot_create;
    throw FileError(code, path, system_text("cannot create", errno));
  }
  return FileDescriptor(descriptor);
}

void write_all(int descriptor, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor, bytes.data(), std::min<std::size_t>(bytes.size(), 1u << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0)
      throw FileError(ExitCode::input_output, path, system_text("cannot write", done < 0 ? errno : ENOSPC));
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

std::int64_t size_of_content(int descriptor, const std::string& path, ExitCode code) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) throw FileError(ExitCode::input_output, path, system_text("cannot stat", errno));
  if (!S_ISREG(info.st_mode)) throw FileError(code, path, "is not a regular file");
  char byte = 0;
  ssize_t got = 0;
  do got = ::pread(descriptor, &byte, 1, std::max<off_t>(info.st_size - 1, 0));
  while (got < 0 && errno == EINTR);
  if (got < 0) throw FileError(ExitCode::input_output, path, system_text("cannot read", errno));
  if ((got == 1) != (info.st_size > 0))
    throw FileError(code, path,
                    fmt::format("is not a regular file on a disk: its size is {}, its content {}. Files of the kernel "
                                "(/proc, /sys) are so; copy its content into a file",
                                info.st_size, got == 1 ? "is not empty" : "ends earlier"));
  return info.st_size;
}

std::string read_file(const std::string& path, std::int64_t limit) {
  const FileDescriptor file = open_to_read(path);
  const std::int64_t size = size_of_content(file.get(), path, ExitCode::damaged_data);
  if (size > limit) {
    throw FileError(ExitCode::damaged_data, path, fmt::format("has {} bytes where at most {} make sense", size, limit));
  }
  std::string content(static_cast<std::size_t>(size), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError(ExitCode::input_output, path, system_text("cannot read", errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  content.resize(done);
  return content;
}

void sync_directory(const std::string& path) {
  FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) throw FileError(ExitCode::input_output, path, system_text("cannot open directory", errno));
  // Some file systems cannot sync a directory and say EINVAL: there is nothing more to be had from them.
  if (::fsync(directory.get()) != 0 && errno != EINVAL) {
    throw FileError(ExitCode::input_output, path, system_text("cannot sync directory", errno));
  }
}

void rename_path(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw FileError(ExitCode::input_output, from, system_text("cannot rename to " + to, errno));
  }
}

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) {
    const ExitCode code = disk_trouble(errno) ? ExitCode::input_output : ExitCode::cannot_create;
    throw FileError(code, path, system_text("cannot make directory", errno));
  }
}

void replace_file(const std::string& path, std::string_view content, Durability durability) {
  const std::string directory = directory_of(path);
  const std::string temporary = directory + "/" + temporary_name(std::filesystem::path(path).filename().string());
  if (std::error_code error; !std::filesystem::is_directory(directory, error))
    throw FileError(ExitCode::cannot_create, path, fmt::format("there is no directory {}", directory));
  try {
    FileDescriptor file = create_exclusive(temporary);
    write_all(file.get(), std::as_bytes(std::span(content)), temporary);
    if (durability == Durability::synced && ::fsync(file.get()) != 0) {
      throw FileError(ExitCode::input_output, temporary, system_text("cannot sync", errno));
    }
    file.close(temporary);
    rename_path(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (durability == Durability::synced) sync_directory(directory);
}

void remove_temporaries(const std::string& directory) {
  std::error_code error;  // they only take space: whatever cannot be removed stays
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.') && name.ends_with(kTemporarySuffix)) ::unlink(entry->path().c_str());
  }
}

}  // namespace pipefill
