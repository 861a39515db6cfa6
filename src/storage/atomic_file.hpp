// Files that are either there whole or not at all: written beside their place, synced, renamed. And the few POSIX
// calls that the rest of storage needs, each checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace pipefill {

/// Owns a file descriptor. The destructor closes without looking; close() looks.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return descriptor_; }
  /// Throws FileError 74 naming `path`: some file systems report a failed write only here.
  void close(const std::string& path);

 private:
  int descriptor_ = -1;
};

/// "cannot write: No space left on device (free some space ...)": the call that failed, why, and what to do.
std::string system_text(std::string_view what, int error_number);

/// Missing: FileError 66; not allowed or other failures: 74.
FileDescriptor open_to_read(const std::string& path);
/// A new file, O_EXCL|O_NOFOLLOW|O_CLOEXEC. FileError 73 when it cannot be made (74 when the disk is full).
FileDescriptor create_exclusive(const std::string& path);
/// Writes everything at the current offset or throws FileError 74.
void write_all(int descriptor, std::span<const std::byte> bytes, const std::string& path);
/// The size of a regular file that can be read up to it. FileError `code` for pipes, devices, directories, and for
/// files whose content is not as long as their size: those of the kernel (under /proc they have size 0), or one that
/// shrinks.
std::int64_t size_of_content(int descriptor, const std::string& path, ExitCode code);
/// The whole file, at most `limit` bytes (a larger one is FileError 65, before anything is allocated; so is what
/// size_of_content refuses).
std::string read_file(const std::string& path, std::int64_t limit);
/// Makes the names in a directory survive a power cut. FileError 74.
void sync_directory(const std::string& path);
/// rename(2) and nothing more; FileError 74.
void rename_path(const std::string& from, const std::string& to);
/// Makes one directory; its existing already is FileError 73.
void make_directory(const std::string& path);

enum class Durability {
  synced,  ///< survives a power cut: file and directory are fsynced
  cached,  ///< survives a kill of the process; for files replaced every few seconds
};

/// Replaces `path` by `content` in one step: a reader sees the old file or the new one, never a part, also when several
/// processes or threads replace it at once (the last one wins). Writes `.NAME.*.tmp` beside it first. On failure the
/// old file is untouched, the temporary one gone, and FileError 73 or 74 thrown.
void replace_file(const std::string& path, std::string_view content, Durability durability = Durability::synced);
/// Removes what killed processes left of replace_file in a directory that nobody writes to now.
void remove_temporaries(const std::string& directory);

}  // namespace pipefill
