// Megatron-LM's .idx: read once, every number in it checked against the others and the size of the .bin.
#include <fmt/core.h>

#include <array>
#include <functional>

#include "base/error.hpp"
#include "data/token_formats.hpp"

namespace pipefill {

namespace {

constexpr std::array<char, 9> kMagic{'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr std::int64_t kHeader = 34;

struct IndexHeader {
  TokenType type;
  std::int64_t sequences;
  std::int64_t document_entries;  ///< documents + 1
};

FileError damaged(const std::string& path, const std::string& text) {
  return FileError(ExitCode::damaged_data, path, text);
}

template <class T>
T read_at(const ReadOnlyFile& file, std::int64_t offset) {
  T value;
  file.read(offset, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

/// Calls visit(entry number, value) for an array of `count` T at `offset`, reading a megabyte at a time.
template <class T>
void for_each(const ReadOnlyFile& file, std::int64_t offset, std::int64_t count,
              const std::function<void(std::int64_t, T)>& visit) {
  std::vector<T> block((std::size_t{1} << 20) / sizeof(T));
  for (std::int64_t done = 0; done < count;) {
    const auto size = std::min<std::int64_t>(static_cast<std::int64_t>(block.size()), count - done);
    const std::span<T> values = std::span(block).first(static_cast<std::size_t>(size));
    file.read(offset + done * static_cast<std::int64_t>(sizeof(T)), std::as_writable_bytes(values));
    for (const T value : values) visit(done++, value);
  }
}

TokenType token_type(const std::string& path, int code) {
  switch (code) {
    case 1:
      return TokenType::uint8;
    case 2:
      return TokenType::int8;
    case 3:
      return TokenType::int16;
    case 4:
      return TokenType::int32;
    case 5:
      return TokenType::int64;
    case 8:
      return TokenType::uint16;
    default:
      throw damaged(path, fmt::format("has dtype code {}; token ids are 1 (uint8), 2 (int8), 3 (int16), 4 (int32), "
                                      "5 (int64) or 8 (uint16)",
                                      code));
  }
}

IndexHeader read_header(const ReadOnlyFile& index) {
  const std::string& path = index.path();
  if (index.size() < kHeader)
    throw damaged(path,
                  fmt::format("has {} bytes, less than the {} of a Megatron index header", index.size(), kHeader));
  if (read_at<std::array<char, 9>>(index, 0) != kMagic)
    throw damaged(path, "does not start with MMIDIDX and two zero bytes, so it is not a Megatron index");
  if (const auto version = read_at<std::uint64_t>(index, 9); version != 1)
    throw damaged(path, fmt::format("is version {} of the Megatron index; only 1 is known", version));
  const TokenType type = token_type(path, read_at<std::uint8_t>(index, 17));
  const auto sequences = read_at<std::uint64_t>(index, 18);
  const auto documents = read_at<std::uint64_t>(index, 26);

  // Each count is bounded by the file's size before any product is formed.
  const auto size = static_cast<std::uint64_t>(index.size());
  const bool bounded = sequences <= size / 12 && documents <= size / 8 && documents >= 1;
  const std::uint64_t expected = bounded ? kHeader + 12 * sequences + 8 * documents : 0;
  if (!bounded || (size != expected && size != expected + sequences))
    throw damaged(path, fmt::format("has {} bytes, which does not agree with its header: {} sequences and {} document "
                                    "entries make {} + 12*sequences + 8*documents bytes (one more a sequence if "
                                    "multimodal)",
                                    size, sequences, documents, kHeader));
  return {type, static_cast<std::int64_t>(sequences), static_cast<std::int64_t>(documents)};
}

/// Walks lengths and pointers together; returns the number of tokens. Bytes of the .bin after the last sequence belong
/// to no document and are legal.
std::int64_t check_sequences(const ReadOnlyFile& index, const IndexHeader& header, const ReadOnlyFile& tokens) {
  const std::int64_t width = size_of(header.type);
  const std::int64_t lengths_at = kHeader, pointers_at = kHeader + 4 * header.sequences;
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(header.sequences));
  index.read(lengths_at, std::as_writable_bytes(std::span(lengths)));

  std::int64_t end = 0;  // of the sequences so far, in bytes of the .bin
  for_each<std::int64_t>(index, pointers_at, header.sequences, [&](std::int64_t entry, std::int64_t pointer) {
    const std::int64_t length = lengths[static_cast<std::size_t>(entry)];
    if (length < 0) throw damaged(index.path(), fmt::format("sequence {} has a negative length, {}", entry, length));
    if (pointer != end)
      throw damaged(index.path(),
                    fmt::format("the pointer of sequence {} is {}, but the sequences before it end at byte {} of the "
                                ".bin; merged with a program that counts in 32 bits, perhaps",
                                entry, pointer, end));
    if (length > (tokens.size() - end) / width)
      throw damaged(index.path(),
                    fmt::format("sequence {} is {} tokens of {} bytes from byte {}, but {} has only {} bytes", entry,
                                length, width, end, tokens.path(), tokens.size()));
    end += length * width;
  });
  return end / width;
}

void check_documents(const ReadOnlyFile& index, const IndexHeader& header) {
  const std::int64_t documents_at = kHeader + 12 * header.sequences;
  std::int64_t previous = 0;
  for_each<std::int64_t>(index, documents_at, header.document_entries, [&](std::int64_t entry, std::int64_t start) {
    const bool first_is_zero = entry > 0 || start == 0;
    const bool last_is_all = entry + 1 < header.document_entries || start == header.sequences;
    if (start < previous || start > header.sequences || !first_is_zero || !last_is_all)
      throw damaged(index.path(), fmt::format("entry {} of {} in the document index is {}; it must start with 0, never "
                                              "decrease and end with the number of sequences, {}",
                                              entry, header.document_entries, start, header.sequences));
    previous = start;
  });
}

}  // namespace

TokenFile open_megatron(const std::string& prefix) {
  const ReadOnlyFile index(prefix + ".idx");
  ReadOnlyFile tokens(prefix + ".bin");
  const IndexHeader header = read_header(index);
  const std::int64_t count = check_sequences(index, header, tokens);
  check_documents(index, header);
  return {std::move(tokens), 0, header.type, count};
}

}  // namespace pipefill
