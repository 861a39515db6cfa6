#include "comm/replica_reduction.hpp"

#include <algorithm>

#include "base/contract.hpp"

namespace pipefill {
namespace {

std::int64_t elements(const SliceList& slices) {
  std::int64_t sum = 0;
  for (const Slice& slice : slices) sum += slice.count;
  return sum;
}

std::int64_t payload_bytes(const SliceList& slices) {
  return elements(slices) * static_cast<std::int64_t>(sizeof(float));
}

std::span<float> part(const TensorList& tensors, const Slice& slice) {
  PF_EXPECT(slice.tensor < tensors.size());
  PF_EXPECT(slice.first >= 0 && slice.first + slice.count <= std::ssize(tensors[slice.tensor]));
  return tensors[slice.tensor].subspan(static_cast<std::size_t>(slice.first), static_cast<std::size_t>(slice.count));
}

void gather(const TensorList& tensors, const SliceList& slices, std::span<float> packed) {
  auto to = packed.begin();
  for (const Slice& slice : slices) to = std::ranges::copy(part(tensors, slice), to).out;
}

void scatter(std::span<const float> packed, const SliceList& slices, const TensorList& tensors) {
  auto from = packed.begin();
  for (const Slice& slice : slices) {
    std::copy_n(from, slice.count, part(tensors, slice).begin());
    from += slice.count;
  }
}

const SliceList& owned_by(const ReplicaGroup& group, ReplicaId replica) {
  return group.owned[static_cast<std::size_t>(replica.value)];
}

RankId rank_of(const ReplicaGroup& group, ReplicaId replica) {
  return group.ranks[static_cast<std::size_t>(replica.value)];
}

}  // namespace

SliceBroadcast::SliceBroadcast(Transport& transport, ReplicaGroup group, Channel channel, int item)
    : transport_(&transport), group_(std::move(group)), tag_{channel, item, {0}} {
  PF_EXPECT(group_.owned.size() == group_.ranks.size());
  for (int r = 0; r < group_.replicas(); ++r) {
    if (ReplicaId{r} == group_.mine) continue;
    peers_.push_back({{r},
                      Message(payload_bytes(owned_by(group_, {r}))),
                      Message(payload_bytes(owned_by(group_, group_.mine))),
                      false});
  }
}

void SliceBroadcast::post(std::int64_t step) {
  PF_EXPECT(!posted_);
  for (Peer& peer : peers_) {
    peer.taken = false;
    peer.incoming.receive(*transport_, rank_of(group_, peer.replica), tag_, step);
  }
  posted_ = true;
}

void SliceBroadcast::start(TensorList tensors, std::int64_t step) {
  PF_EXPECT(!started_);
  if (!posted_) post(step);
  tensors_ = std::move(tensors);
  for (Peer& peer : peers_) {
    gather(tensors_, owned_by(group_, group_.mine), peer.outgoing.payload<float>());
    peer.outgoing.send(*transport_, rank_of(group_, peer.replica), tag_, step);
  }
  started_ = true;
}

bool SliceBroadcast::test() {
  if (!started_) return true;
  bool done = true;
  for (Peer& peer : peers_) {
    if (!peer.taken && peer.incoming.test()) {
      scatter(peer.incoming.payload<float>(), owned_by(group_, peer.replica), tensors_);
      peer.taken = true;
    }
    done = peer.outgoing.test() && peer.taken && done;
  }
  if (done) posted_ = started_ = false;
  return done;
}

ReplicaReduction::ReplicaReduction(Transport& transport, ReplicaGroup group, SumDelivery delivery, int item)
    : transport_(&transport), group_(std::move(group)), tag_{Channel::replica_gradient, item, {0}} {
  PF_EXPECT(group_.owned.size() == group_.ranks.size());
  for (int r = 0; r < group_.replicas(); ++r) {
    if (ReplicaId{r} == group_.mine) continue;
    peers_.push_back(
        {{r}, Message(payload_bytes(owned_by(group_, group_.mine))), Message(payload_bytes(owned_by(group_, {r})))});
  }
  if (delivery == SumDelivery::broadcast) {
    broadcast_.emplace(transport, group_, Channel::replica_parameter, item);
  }
}

ReplicaReduction::Peer& ReplicaReduction::peer(int replica) {
  PF_EXPECT(replica != group_.mine.value);
  return peers_[static_cast<std::size_t>(replica < group_.mine.value ? replica : replica - 1)];
}

void ReplicaReduction::post(std::int64_t step) {
  PF_EXPECT(!posted_);
  for (Peer& p : peers_) p.incoming.receive(*transport_, rank_of(group_, p.replica), tag_, step);
  if (broadcast_) broadcast_->post(step);
  posted_ = true;
}

void ReplicaReduction::start(TensorList tensors, std::int64_t step) {
  PF_EXPECT(!started_);
  if (!posted_) post(step);
  tensors_ = std::move(tensors);
  step_ = step;
  next_ = 0;
  for (Peer& p : peers_) {
    gather(tensors_, owned_by(group_, p.replica), p.outgoing.payload<float>());
    p.outgoing.send(*transport_, rank_of(group_, p.replica), tag_, step);
  }
  started_ = true;
}

bool ReplicaReduction::add_arrived() {
  // Contributions before mine gather in the first one's buffer; then mine is added in place; then the later ones.
  const SliceList& mine = owned_by(group_, group_.mine);
  for (; next_ < group_.replicas(); ++next_) {
    if (next_ == group_.mine.value) {
      if (next_ == 0) continue;
      auto sum = peer(0).incoming.payload<float>().begin();
      for (const Slice& slice : mine) {
        for (float& value : part(tensors_, slice)) value = *sum++ + value;
      }
      continue;
    }
    if (!peer(next_).incoming.test()) return false;
    const std::span<const float> contribution = peer(next_).incoming.payload<float>();
    if (next_ > group_.mine.value) {
      auto other = contribution.begin();
      for (const Slice& slice : mine) {
        for (float& value : part(tensors_, slice)) value += *other++;
      }
    } else if (next_ > 0) {
      const std::span<float> sum = peer(0).incoming.payload<float>();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += contribution[i];
    }
  }
  return true;
}

bool ReplicaReduction::test() {
  if (!started_) return true;
  if (!add_arrived()) {
    transport_->progress();
    return false;
  }
  if (broadcast_ && !broadcasting_) {
    broadcast_->start(tensors_, step_);
    broadcasting_ = true;
  }
  bool done = !broadcast_ || broadcast_->test();
  for (Peer& p : peers_) done = p.outgoing.test() && done;
  if (done) posted_ = started_ = broadcasting_ = false;
  return done;
}

}  // namespace pipefill
