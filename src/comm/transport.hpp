// The one seam between ranks: bytes to a peer and a few small collectives. Nothing here blocks; waiting, with a
// deadline and a way to wait, is comm/wait. Implementations: loopback_transport (threads of one process, no MPI) and
// mpi_transport (host MPI, funnelled through the rank's main thread).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/id.hpp"
#include "base/units.hpp"

namespace pipefill {

/// What a message is about. FIFO per (sender, receiver, tag): two messages with one tag arrive in the order sent.
/// `probe`: the timing measurements at start and end.
enum class Channel : std::uint8_t { activation, gradient, replica_gradient, replica_parameter, tied_gradient, probe };
inline constexpr int kChannels = static_cast<int>(Channel::probe) + 1;

struct Tag {
  Channel channel = Channel::activation;
  int item = 0;  ///< the receiver's chunk for activations and gradients, the part index elsewhere
  MicrobatchId microbatch;
  auto operator<=>(const Tag&) const = default;
};

/// Starts every message between ranks (64 bytes, so that the payload behind it stays aligned).
struct alignas(64) MessageHeader {
  std::int64_t ready_ns = 0;  ///< sender's clock when the payload was complete and handed to the transport
  std::int64_t payload_bytes = 0;
  std::int64_t step = 0;
  std::int64_t reserved[5] = {};
};
static_assert(sizeof(MessageHeader) == 64);

/// A posted operation. Cheap to copy; valid until test() has returned true for it once.
struct Request {
  std::int64_t handle = -1;
  bool pending() const { return handle >= 0; }
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual RankId rank() const = 0;
  virtual int size() const = 0;

  /// Posts a send; `message` belongs to the transport until test() says done. Any size: split above 2^30 bytes.
  virtual Request send(RankId to, Tag tag, std::span<const std::byte> message) = 0;
  /// Posts a receive of exactly `message.size()` bytes; another size is a TransportError at test().
  virtual Request receive(RankId from, Tag tag, std::span<std::byte> message) = 0;

  /// True once: the operation is done and `request` no longer pending. Moves all posted traffic along.
  /// Throws TransportError when a peer is lost.
  virtual bool test(Request& request) = 0;
  /// Moves all posted traffic along without asking for anything: call between layers.
  virtual void progress() = 0;

  /// Gives a send or receive up when its owner goes away before it is done (an error unwinds). True: the buffer is
  /// free. False: the network may still touch the buffer, which must then live as long as the process.
  virtual bool abandon(Request& request) noexcept = 0;

  /// Concatenates every rank's bytes in rank order into `all`; `counts[r]` bytes come from rank r.
  /// All ranks call the collectives in the same order. Their results are written by the test() that says done, and by
  /// nothing else, so a collective that an error leaves behind touches no memory of its caller.
  virtual Request all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                             std::vector<std::int64_t> counts) = 0;
  /// Largest value over all ranks into `result` (8 bytes, every step: the stop flag).
  virtual Request all_reduce_max(std::int64_t value, std::int64_t& result) = 0;

  /// Ends all ranks with this exit code, from any thread. Does not return under MPI.
  virtual void abort(int exit_code) = 0;
};

}  // namespace pipefill
