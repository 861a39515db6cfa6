// A seeded permutation of 0..size-1 that is computed, not stored: it needs no memory, whatever the size, and resuming
// in the middle of an epoch needs only the position.
#pragma once

#include <cstdint>

namespace pipefill {

/// A Feistel network on the smallest domain 4^k >= size, walked along its cycles until it lands below size (Black and
/// Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, section 4). At most four rounds of it are expected
/// per call, since the domain is less than four times the size (or 4, if that is more).
class Permutation {
 public:
  /// size >= 1; another key gives another permutation.
  Permutation(std::int64_t size, std::uint64_t key);
  /// Where `index` goes; 0 <= index < size.
  std::int64_t operator()(std::int64_t index) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t key_;
  int half_bits_;
};

}  // namespace pipefill
