// Sums gradients over the R replicas of a stage, in replica order (g0 + g1) + g2 + ..., so that all replicas get the
// same bits, whatever arrives first. Nothing blocks: test() moves it along, so it overlaps with computing.
// Each replica owns slices (ZeRO-1, Rajbhandari et al. 2020, section 5.1): it receives R-1 contributions for its own
// slices and adds them; the sums, or later the parameters updated with them, go back by SliceBroadcast.
#pragma once

#include <optional>
#include <vector>

#include "comm/message.hpp"
#include "comm/transport.hpp"

namespace pipefill {

/// `count` consecutive elements of tensor `tensor`, from `first` on.
struct Slice {
  std::size_t tensor = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const Slice&) const = default;
};
using SliceList = std::vector<Slice>;
using TensorList = std::vector<std::span<float>>;

/// The replicas of one stage in replica order, and who owns what. The same on all of them; no element has two owners.
struct ReplicaGroup {
  std::vector<RankId> ranks;  ///< size R; ranks[r] is replica r
  ReplicaId mine;
  std::vector<SliceList> owned;  ///< size R
  int replicas() const { return static_cast<int>(ranks.size()); }
};

/// Every owner's slices to everybody else, e.g. updated parameters. Reusable, one round at a time.
class SliceBroadcast {
 public:
  /// `item` tells apart the broadcasts of one rank that are under way at once (the chunk, say).
  SliceBroadcast(Transport& transport, ReplicaGroup group, Channel channel, int item);
  /// Posts the receives of a round; call early, at the start of the step.
  void post(std::int64_t step);
  /// Sends this replica's own slices of `tensors`; posts the receives if post() was not called. The tensors belong to
  /// the broadcast until test() says done.
  void start(TensorList tensors, std::int64_t step);
  /// True when all slices have come and all of mine have gone (also when no round is under way).
  bool test();

 private:
  struct Peer {
    ReplicaId replica;
    Message incoming;  ///< its slices
    Message outgoing;  ///< mine (a copy for each peer: one operation, one buffer)
    bool taken = false;
  };
  Transport* transport_;
  ReplicaGroup group_;
  Tag tag_;
  std::vector<Peer> peers_;
  TensorList tensors_;
  bool posted_ = false;
  bool started_ = false;
};

/// broadcast: every replica ends with all sums (plain data parallel). keep: each only with its own slices' sums
/// (optimizer.shard: the updated parameters are broadcast later).
enum class SumDelivery { broadcast, keep };

class ReplicaReduction {
 public:
  ReplicaReduction(Transport& transport, ReplicaGroup group, SumDelivery delivery, int item);

  /// Posts the receives of a step's round; call at the start of the step.
  void post(std::int64_t step);
  /// The gradients in `tensors` are final: sends to the owners what they own; posts if post() was not called. With
  /// one replica there is nothing to do. The tensors belong to the reduction until test() says done; the sums are
  /// written in place.
  void start(TensorList tensors, std::int64_t step);
  /// True when the sums are in place and every buffer is free again (also when no round is under way).
  bool test();

  /// visit(RankId from, const MessageHeader&) for each contribution to this replica's slices, once test() has been
  /// true.
  template <class Visit>
  void for_each_contribution(Visit&& visit) const {
    for (const Peer& p : peers_) visit(group_.ranks[static_cast<std::size_t>(p.replica.value)], p.incoming.header());
  }

 private:
  struct Peer {
    ReplicaId replica;
    Message incoming;  ///< its contribution to my slices
    Message outgoing;  ///< mine to its slices
  };
  /// Adds contributions in replica order as far as they have come; true when all are in.
  bool add_arrived();
  Peer& peer(int replica);

  Transport* transport_;
  ReplicaGroup group_;
  Tag tag_;
  std::vector<Peer> peers_;
  std::optional<SliceBroadcast> broadcast_;
  TensorList tensors_;
  std::int64_t step_ = 0;
  int next_ = 0;  ///< the replica whose contribution is added next
  bool posted_ = false;
  bool started_ = false;
  bool broadcasting_ = false;
};

}  // namespace pipefill
