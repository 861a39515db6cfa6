// The Feistel network behind Permutation.
#include "data/permutation.hpp"

#include <bit>

#include "base/contract.hpp"
#include "base/random.hpp"

namespace pipefill {

namespace {
constexpr int kRounds = 6;
}

Permutation::Permutation(std::int64_t size, std::uint64_t key) : size_(static_cast<std::uint64_t>(size)), key_(key) {
  PF_EXPECT(size >= 1);
  const int bits = std::bit_width(size_ - 1);
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
}

std::int64_t Permutation::operator()(std::int64_t index) const {
  PF_EXPECT(index >= 0 && static_cast<std::uint64_t>(index) < size_);
  std::uint64_t value = encrypt(static_cast<std::uint64_t>(index));
  while (value >= size_) value = encrypt(value);
  return static_cast<std::int64_t>(value);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_, right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t next = left ^ (derive_key(key_ + static_cast<std::uint64_t>(round), right) & mask);
    left = right, right = next;
  }
  return left << half_bits_ | right;
}

}  // namespace pipefill
