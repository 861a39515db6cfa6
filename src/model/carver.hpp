// Carves a buffer into 64-byte aligned pieces, or, without a buffer, only adds up what they would take: sizes and
// layout come from one function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/contract.hpp"
#include "device/device.hpp"

namespace pipefill {

class Carver {
 public:
  Carver() = default;  ///< counts only; pieces are null
  explicit Carver(const Buffer& buffer) : buffer_(buffer.as<std::byte>()) {}
  explicit Carver(std::span<std::byte> memory) : buffer_(memory) {}  ///< 64-byte aligned, as Buffers are

  template <class T>
  T* take(std::int64_t elements) {
    const std::int64_t start = taken_;
    taken_ += (elements * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
    if (buffer_.empty()) return nullptr;
    PF_EXPECT(taken_ <= static_cast<std::int64_t>(buffer_.size()));
    return reinterpret_cast<T*>(buffer_.data() + start);
  }
  Bytes taken() const { return Bytes{taken_}; }

 private:
  std::span<std::byte> buffer_;
  std::int64_t taken_ = 0;
};

}  // namespace pipefill
