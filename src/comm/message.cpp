#include "comm/message.hpp"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "base/contract.hpp"
#include "base/error.hpp"

namespace pipefill {

MessageBuffer::MessageBuffer() : MessageBuffer(0) {}

MessageBuffer::MessageBuffer(std::int64_t payload_bytes)
    : size_(sizeof(MessageHeader) + static_cast<std::size_t>(payload_bytes)) {
  PF_EXPECT(payload_bytes >= 0);
  bytes_.reset(static_cast<std::byte*>(::operator new(size_, std::align_val_t{64})));
  new (bytes_.get()) MessageHeader{.payload_bytes = payload_bytes};
  // Touched here, at start, and not page by page inside the first step; and never sent uninitialised.
  std::memset(bytes_.get() + sizeof(MessageHeader), 0, static_cast<std::size_t>(payload_bytes));
}

void MessageBuffer::Free::operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }

void MessageBuffer::stamp(std::int64_t step) {
  auto& header = *reinterpret_cast<MessageHeader*>(bytes_.get());
  header.payload_bytes = static_cast<std::int64_t>(size_ - sizeof(MessageHeader));
  header.step = step;
  header.ready_ns = now().count();
}

void MessageBuffer::check(std::int64_t step) const {
  const auto payload = static_cast<std::int64_t>(size_ - sizeof(MessageHeader));
  if (header().payload_bytes != payload || header().step != step) {
    throw TransportError(fmt::format(
        "a message of step {} with {} payload bytes came where step {} and {} bytes were expected: sender and receiver "
        "run different programs",
        header().step, header().payload_bytes, step, payload));
  }
}

Message::~Message() { give_up(); }

Message::Message(Message&& other) noexcept { *this = std::move(other); }

Message& Message::operator=(Message&& other) noexcept {
  if (this != &other) {
    give_up();
    buffer_ = std::move(other.buffer_);
    transport_ = other.transport_;
    request_ = std::exchange(other.request_, {});
    step_ = other.step_;
    receiving_ = other.receiving_;
  }
  return *this;
}

void Message::give_up() noexcept {
  if (request_.pending() && !transport_->abandon(request_)) buffer_.leak();
}

void Message::send(Transport& transport, RankId to, Tag tag, std::int64_t step) {
  PF_EXPECT(!request_.pending());
  buffer_.stamp(step);
  transport_ = &transport;
  receiving_ = false;
  request_ = transport.send(to, tag, buffer_.bytes());
}

void Message::receive(Transport& transport, RankId from, Tag tag, std::int64_t step) {
  PF_EXPECT(!request_.pending());
  transport_ = &transport;
  receiving_ = true;
  step_ = step;
  request_ = transport.receive(from, tag, buffer_.bytes());
}

bool Message::test() {
  if (!request_.pending()) return true;
  if (!transport_->test(request_)) return false;
  if (receiving_) buffer_.check(step_);
  return true;
}

}  // namespace pipefill
