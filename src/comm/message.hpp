// A message between ranks: header and payload in one 64-byte aligned buffer, sent in one piece.
#pragma once

#include <memory>
#include <span>
#include <type_traits>

#include "comm/transport.hpp"

namespace pipefill {

/// Owns the bytes; not copyable, and it must live until the request made with bytes() is done.
class MessageBuffer {
 public:
  MessageBuffer() = default;
  explicit MessageBuffer(std::int64_t payload_bytes);

  /// Header and payload, what goes over the wire; size 64 + payload.
  std::span<std::byte> bytes() { return {bytes_.get(), size_}; }
  /// The payload as T; 64-byte aligned. Its size is payload_bytes / sizeof(T).
  template <class T = std::byte>
  std::span<T> payload() {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<T*>(bytes_.get() + sizeof(MessageHeader)), (size_ - sizeof(MessageHeader)) / sizeof(T)};
  }

  /// Sender: stamps the header with the time now ("payload complete, handed to the transport").
  void stamp(std::int64_t step);
  const MessageHeader& header() const { return *reinterpret_cast<const MessageHeader*>(bytes_.get()); }
  /// Receiver: TransportError unless the header says `step` and this payload size.
  void check(std::int64_t step) const;

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = sizeof(MessageHeader);
};

}  // namespace pipefill
