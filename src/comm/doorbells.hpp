// A word per rank of a host, in memory they share, that others raise when they have sent that rank something. A fill
// worker may not call MPI, but it can read its rank's word between two chunks: while nobody has rung, the rank can
// sleep on (waking it at every chunk costs 10 us, and asking MPI would say nothing new).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/id.hpp"

namespace pipefill {

class Cluster;

using Doorbell = std::atomic<std::uint32_t>;

/// One rank's word as another process finds it: at `offset` of the memory behind `descriptor`.
struct DoorbellPlace {
  int descriptor = -1;  ///< -1: there is none, or only in this process
  std::int64_t offset = 0;
  const Doorbell* word = nullptr;  ///< in this process; null: there is none
};

class Doorbells {
 public:
  /// Collective over the ranks of each host. Error 74 where there is no shared memory.
  explicit Doorbells(const Cluster& cluster);
  /// For ranks that are threads of this process.
  explicit Doorbells(std::vector<RankId> ranks);
  ~Doorbells();
  Doorbells(const Doorbells&) = delete;
  Doorbells& operator=(const Doorbells&) = delete;

  /// Whether `rank` is of this host: only then it can ring, and be rung.
  bool has(RankId rank) const;
  /// To be called when a message to `rank` has been given to the transport. Nothing for a rank of another host.
  void ring(RankId rank);
  /// How often `rank`'s bell was rung. It must be of this host.
  std::uint32_t count(RankId rank) const;
  /// A message that `mine` was rung for has come whole. Only `mine` itself says so.
  void answer(RankId mine);
  /// How many. Equal to count(): nothing that was sent to it is on its way or waits to be taken.
  std::uint32_t answered(RankId mine) const;
  DoorbellPlace place(RankId rank) const;

 private:
  struct Row;
  Row* row(RankId rank) const;  ///< null for a rank of another host

  std::vector<RankId> ranks_;  ///< of this host, ascending
  int descriptor_ = -1;
  std::size_t size_ = 0;
  Row* rows_ = nullptr;
};

}  // namespace pipefill
