// Byte files, llm.c shards and nanoGPT files. Megatron's pair is in megatron_index.cpp.
#include "data/token_formats.hpp"

#include <fmt/core.h>

#include <array>

#include "base/error.hpp"

namespace pipefill {

TokenFile open_bytes(const std::string& path) {
  ReadOnlyFile file(path);
  const std::int64_t size = file.size();
  return {std::move(file), 0, TokenType::uint8, size};
}

LlmcShard open_llmc(const std::string& path) {
  constexpr std::int64_t kHeader = 1024;
  constexpr std::int32_t kGpt2Magic = 20240520, kLlama3Magic = 20240801;
  ReadOnlyFile file(path);
  const auto damaged = [&](const std::string& text) { return FileError(ExitCode::damaged_data, path, text); };
  if (file.size() < kHeader)
    throw damaged(fmt::format("has {} bytes, less than the {} of an llm.c header", file.size(), kHeader));
  std::array<std::int32_t, 3> header{};
  file.read(0, std::as_writable_bytes(std::span(header)));
  const auto [magic, version, count] = header;

  const bool gpt2 = magic == kGpt2Magic && version == 1;
  if (!gpt2 && !(magic == kLlama3Magic && version == 7))
    throw damaged(
        fmt::format("starts with magic {} and version {}; an llm.c token shard has {} and 1 (GPT-2) or {} and "
                    "7 (LLaMA 3): check data.source",
                    magic, version, kGpt2Magic, kLlama3Magic));
  const TokenType type = gpt2 ? TokenType::uint16 : TokenType::uint32;
  const std::int64_t expected = kHeader + size_of(type) * static_cast<std::int64_t>(count);
  if (count < 0 || file.size() != expected)
    throw damaged(
        fmt::format("has {} bytes, but its header says {} tokens, which makes {} bytes; it was truncated or "
                    "appended to",
                    file.size(), count, expected));
  return {TokenFile(std::move(file), kHeader, type, count), gpt2 ? kGpt2Vocab : kLlama3Vocab};
}

TokenFile open_nanogpt(const std::string& path) {
  ReadOnlyFile file(path);
  if (file.size() % 2 != 0)
    throw FileError(ExitCode::damaged_data, path,
                    fmt::format("has {} bytes, an odd number; a nanoGPT file is 2-byte tokens, so it was truncated or "
                                "is of another format",
                                file.size()));
  const std::int64_t count = file.size() / 2;
  return {std::move(file), 0, TokenType::uint16, count};
}

}  // namespace pipefill
