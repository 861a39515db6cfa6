// What the transport cases share: recognisable messages, neighbours in a ring, waiting.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/transport.hpp"
#include "comm/wait.hpp"

namespace pipefill {

using Buffer = std::vector<std::byte>;

/// Bytes that tell who sent which message and where in it one is.
inline Buffer pattern(std::size_t size, int sender, int message) {
  Buffer bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(
        (i * 31 + static_cast<std::size_t>(sender) * 7 + static_cast<std::size_t>(message) * 13 + (i >> 8)) & 0xff);
  }
  return bytes;
}

inline ProcessLayout pipeline(const Transport& transport) { return {transport.size(), 1}; }

inline Waiter make_waiter(const Transport& transport, Nanoseconds deadline = std::chrono::seconds(30)) {
  return Waiter(pipeline(transport), transport.rank(), {WaitMethod::sleep, deadline, nullptr});
}

inline RankId next(const Transport& t) { return {(t.rank().value + 1) % t.size()}; }
inline RankId previous(const Transport& t) { return {(t.rank().value + t.size() - 1) % t.size()}; }

inline void finish(Transport& transport, Request request, WaitKind kind = WaitKind::receive) {
  Waiter waiter = make_waiter(transport);
  waiter.wait(transport, request, {kind, {-1}, {}, 0});
}

inline void meet(Transport& transport) {
  std::int64_t ignored = 0;
  finish(transport, transport.all_reduce_max(0, ignored), WaitKind::collective);
}

}  // namespace pipefill
