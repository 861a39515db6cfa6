// UTF-8 as far as files of text need it: whether bytes are valid, and how many characters they are.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace pipefill {

/// Offset of the first byte that is not part of valid UTF-8 (overlong forms, surrogates and values above U+10FFFF are
/// not), or none.
inline std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t i = 0;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned>(static_cast<unsigned char>(text[at])); };
  while (i < text.size()) {
    const unsigned lead = byte(i);
    const std::size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return i;
    unsigned value = length == 1 ? lead : lead & (0xffU >> (length + 1));
    for (std::size_t k = 1; k < length; ++k) {
      if (byte(i + k) >> 6 != 2) return i;
      value = value << 6 | (byte(i + k) & 0x3f);
    }
    constexpr unsigned kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < kSmallest[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return i;
    i += length;
  }
  return std::nullopt;
}

/// Code points; bytes that continue one are not counted.
inline int count_characters(std::string_view text) {
  int count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) >> 6) != 2;
  return count;
}

}  // namespace pipefill
