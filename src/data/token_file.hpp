// One file of tokens: where they lie, how wide they are, and the check of every id that is read.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace pipefill {

/// How a token is stored, little endian.
enum class TokenType { uint8, int8, int16, uint16, int32, uint32, int64 };
std::int64_t size_of(TokenType type);

/// A file held open for reading at any position, by any number of threads at once.
class ReadOnlyFile {
 public:
  /// A file that is not there is FileError missing_input; one that cannot be read or is not a regular file,
  /// input_output.
  explicit ReadOnlyFile(const std::string& path);
  ~ReadOnlyFile();
  ReadOnlyFile(ReadOnlyFile&& other) noexcept;
  ReadOnlyFile& operator=(ReadOnlyFile&& other) noexcept;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }  ///< bytes, when it was opened
  /// Fills `bytes` from `offset`; a file that meanwhile became shorter is FileError damaged_data.
  void read(std::int64_t offset, std::span<std::byte> bytes) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// `count` tokens of `type` that start at byte `offset` of a file.
class TokenFile {
 public:
  /// The caller has checked that the tokens lie inside the file.
  TokenFile(ReadOnlyFile file, std::int64_t offset, TokenType type, std::int64_t count);

  const std::string& path() const { return file_.path(); }
  std::int64_t tokens() const { return count_; }
  /// Tokens position .. position + out.size() - 1. An id that is negative or not below `vocab` is FileError
  /// damaged_data that names the file, the token's position and its byte.
  void read(std::int64_t position, std::span<std::int32_t> out, int vocab) const;

 private:
  ReadOnlyFile file_;
  std::int64_t offset_;
  TokenType type_;
  std::int64_t count_;
};

}  // namespace pipefill
