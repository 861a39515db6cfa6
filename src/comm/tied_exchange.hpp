// The tied embedding's gradient has two accumulators, look-up (first stage) and head (last stage). The two stages swap
// them and both form look-up + head, in this order, so that their copies of the weight stay equal bit for bit.
#pragma once

#include "comm/message.hpp"
#include "comm/transport.hpp"

namespace pipefill {

enum class TiedRole { lookup, head };

/// The swap's one message a step.
inline constexpr Tag kTiedGradient{Channel::tied_gradient, 0, {0}};

/// sum[i] = lookup[i] + head[i]; `sum` may be either of them. The same call at P = 1.
void add_tied(std::span<const float> lookup, std::span<const float> head, std::span<float> sum);

/// One rank's half of the swap. Non-blocking, reusable, one round at a time.
class TiedExchange {
 public:
  TiedExchange(Transport& transport, RankId peer, TiedRole mine, std::int64_t elements);
  void post(std::int64_t step);  ///< posts the receive; call at the start of the step
  /// `accumulator` (size `elements`) is final: sends a copy. It belongs to the exchange until test() says done, and
  /// then holds look-up + head.
  void start(std::span<float> accumulator, std::int64_t step);
  bool test();
  /// Nothing of mine is under way.
  bool sent() { return !started_ || outgoing_.test(); }

  RankId peer() const { return peer_; }
  /// Of the peer's accumulator, once test() has been true in this round.
  const MessageHeader& received_header() const { return incoming_.header(); }

 private:
  Transport* transport_;
  RankId peer_;
  TiedRole mine_;
  Message incoming_, outgoing_;
  std::span<float> accumulator_;
  bool posted_ = false;
  bool started_ = false;
  bool added_ = false;
};

}  // namespace pipefill
