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
  MessageBuffer();  ///< header only
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
  /// Gives the bytes to the process for good: the network may still touch them.
  void leak() { (void)bytes_.release(); }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = sizeof(MessageHeader);
};

/// A buffer together with the operation that uses it, so that the bytes never go while the network may touch them. One
/// operation at a time, reusable. Movable while no operation is under way.
class Message {
 public:
  Message() = default;
  explicit Message(std::int64_t payload_bytes) : buffer_(payload_bytes) {}
  ~Message();
  Message(Message&& other) noexcept;
  Message& operator=(Message&& other) noexcept;

  /// Stamps and sends; the payload must not change until test() is true.
  void send(Transport& transport, RankId to, Tag tag, std::int64_t step);
  void receive(Transport& transport, RankId from, Tag tag, std::int64_t step);
  /// True when no operation is under way. At the end of a receive the header is checked (TransportError).
  bool test();

  template <class T = std::byte>
  std::span<T> payload() {
    return buffer_.payload<T>();
  }
  const MessageHeader& header() const { return buffer_.header(); }

 private:
  void give_up() noexcept;

  MessageBuffer buffer_;
  Transport* transport_ = nullptr;
  Request request_;
  std::int64_t step_ = 0;
  bool receiving_ = false;
};

}  // namespace pipefill
