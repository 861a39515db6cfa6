#include "comm/doorbells.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/contract.hpp"
#include "comm/cluster.hpp"
#include "comm/shared_memory.hpp"

namespace pipefill {

/// Two cache lines, so that no rank's bell disturbs another's.
struct alignas(128) Doorbells::Row {
  Doorbell rung;  // zero pages are its initial state
  std::atomic<std::uint32_t> answered;
};

Doorbells::Doorbells(const Cluster& cluster)
    : ranks_(cluster.local_ranks()),
      descriptor_(cluster.open_host_memory("bells", static_cast<std::int64_t>(ranks_.size() * sizeof(Row)))),
      size_(ranks_.size() * sizeof(Row)) {
  try {
    rows_ = static_cast<Row*>(map_shared_memory(descriptor_, size_, "doorbells"));
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

Doorbells::Doorbells(std::vector<RankId> ranks)
    : ranks_(std::move(ranks)),
      size_(ranks_.size() * sizeof(Row)),
      rows_(static_cast<Row*>(map_shared_memory(-1, size_, "doorbells"))) {}

Doorbells::~Doorbells() {
  ::munmap(rows_, size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

Doorbells::Row* Doorbells::row(RankId rank) const {
  const auto at = std::ranges::find(ranks_, rank);
  return at == ranks_.end() ? nullptr : rows_ + (at - ranks_.begin());
}

bool Doorbells::has(RankId rank) const { return row(rank) != nullptr; }

void Doorbells::ring(RankId rank) {
  if (Row* const its = row(rank)) its->rung.fetch_add(1, std::memory_order_release);
}

std::uint32_t Doorbells::count(RankId rank) const {
  const Row* const its = row(rank);
  PF_EXPECT(its != nullptr);
  return its->rung.load(std::memory_order_acquire);
}

void Doorbells::answer(RankId mine) {
  Row* const its = row(mine);
  PF_EXPECT(its != nullptr);
  its->answered.fetch_add(1, std::memory_order_relaxed);
}

std::uint32_t Doorbells::answered(RankId mine) const {
  const Row* const its = row(mine);
  PF_EXPECT(its != nullptr);
  return its->answered.load(std::memory_order_relaxed);
}

DoorbellPlace Doorbells::place(RankId rank) const {
  const Row* const its = row(rank);
  PF_EXPECT(its != nullptr);
  return {descriptor_, (its - rows_) * static_cast<std::int64_t>(sizeof(Row)), &its->rung};
}

}  // namespace pipefill
