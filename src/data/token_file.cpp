// Reading tokens by position, with pread: it keeps no state in the file, and a file that shrinks under the run is an
// error with a name instead of a SIGBUS.
#include "data/token_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/contract.hpp"
#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {

static_assert(std::endian::native == std::endian::little, "token files are little endian and read without swapping");

std::int64_t size_of(TokenType type) {
  switch (type) {
    case TokenType::uint8:
    case TokenType::int8:
      return 1;
    case TokenType::int16:
    case TokenType::uint16:
      return 2;
    case TokenType::int32:
    case TokenType::uint32:
      return 4;
    case TokenType::int64:
      return 8;
  }
  contract_broken("precondition", "a known token type");
}

ReadOnlyFile::ReadOnlyFile(const std::string& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a FIFO would wait for ever
  if (descriptor_ < 0) {
    const int reason = errno;
    if (reason == ENOENT || reason == ENOTDIR)
      throw FileError(ExitCode::missing_input, path, "is not there; check data.files and the working directory");
    throw FileError(ExitCode::input_output, path,
                    fmt::format("cannot be opened: {}{}", std::strerror(reason),
                                reason == EMFILE ? "; raise `ulimit -n`, or join the files into fewer" : ""));
  }
  try {
    size_ = size_of_content(descriptor_, path, ExitCode::input_output);
  } catch (...) {
    ::close(std::exchange(descriptor_, -1));
    throw;
  }
}

ReadOnlyFile::~ReadOnlyFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ReadOnlyFile::ReadOnlyFile(ReadOnlyFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

ReadOnlyFile& ReadOnlyFile::operator=(ReadOnlyFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

void ReadOnlyFile::read(std::int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ::ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw FileError(
          ExitCode::input_output, path_,
          fmt::format("reading {} bytes at byte {} failed: {}", bytes.size(), offset, std::strerror(errno)));
    if (count == 0)
      throw FileError(ExitCode::damaged_data, path_,
                      fmt::format("ends before byte {}; it had {} bytes when it was opened, so it was cut while in use",
                                  offset, size_));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

TokenFile::TokenFile(ReadOnlyFile file, std::int64_t offset, TokenType type, std::int64_t count)
    : file_(std::move(file)), offset_(offset), type_(type), count_(count) {
  PF_EXPECT(offset >= 0 && count >= 0 && count <= (file_.size() - offset) / size_of(type));
}

namespace {

// Converts tokens of type T in `bytes`; returns the position of the first bad one, or out.size().
template <class T>
std::size_t convert(std::span<const std::byte> bytes, std::span<std::int32_t> out, std::int64_t vocab,
                    std::int64_t& bad) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T token;
    std::memcpy(&token, bytes.data() + i * sizeof(T), sizeof(T));
    const auto id = static_cast<std::int64_t>(token);
    if (id < 0 || id >= vocab) {
      bad = id;
      return i;
    }
    out[i] = static_cast<std::int32_t>(id);
  }
  return out.size();
}

std::size_t convert(TokenType type, std::span<const std::byte> bytes, std::span<std::int32_t> out, std::int64_t vocab,
                    std::int64_t& bad) {
  switch (type) {
    case TokenType::uint8:
      return convert<std::uint8_t>(bytes, out, vocab, bad);
    case TokenType::int8:
      return convert<std::int8_t>(bytes, out, vocab, bad);
    case TokenType::int16:
      return convert<std::int16_t>(bytes, out, vocab, bad);
    case TokenType::uint16:
      return convert<std::uint16_t>(bytes, out, vocab, bad);
    case TokenType::int32:
      return convert<std::int32_t>(bytes, out, vocab, bad);
    case TokenType::uint32:
      return convert<std::uint32_t>(bytes, out, vocab, bad);
    case TokenType::int64:
      return convert<std::int64_t>(bytes, out, vocab, bad);
  }
  contract_broken("precondition", "a known token type");
}

}  // namespace

void TokenFile::read(std::int64_t position, std::span<std::int32_t> out, int vocab) const {
  PF_EXPECT(position >= 0 && position + static_cast<std::int64_t>(out.size()) <= count_);
  const std::int64_t width = size_of(type_);
  std::vector<std::byte> bytes(out.size() * static_cast<std::size_t>(width));
  file_.read(offset_ + position * width, bytes);
  std::int64_t bad = 0;
  const std::size_t good = convert(type_, bytes, out, vocab, bad);
  if (good == out.size()) return;
  const std::int64_t where = position + static_cast<std::int64_t>(good);
  throw FileError(ExitCode::damaged_data, path(),
                  fmt::format("token {} (byte {}) is {}, not an id from 0 to {}; the model has no embedding for it: "
                              "set model.vocab to the tokenizer's size, or check the file's format",
                              where, offset_ + where * width, bad, vocab - 1));
}

}  // namespace pipefill
