// Which rank is which stage of which replica. Values in, values out; every rank computes the same answer.
#pragma once

#include <optional>

#include "base/id.hpp"

namespace pipefill {

/// rank = replica * P + stage: the stages of one replica are consecutive ranks, so that pipeline neighbours, who talk
/// every microbatch, share a host wherever the launcher fills hosts one after another; replicas talk once a step.
struct ProcessLayout {
  int stages = 1;    ///< P
  int replicas = 1;  ///< R

  int ranks() const { return stages * replicas; }
  RankId rank_of(StageId stage, ReplicaId replica) const { return {replica.value * stages + stage.value}; }
  StageId stage_of(RankId rank) const { return {rank.value % stages}; }
  ReplicaId replica_of(RankId rank) const { return {rank.value / stages}; }
  bool operator==(const ProcessLayout&) const = default;
};

/// The layout of `ranks` processes. `stages` empty means ranks / replicas. A mismatch is a DeckError with the numbers;
/// being a function of values that all ranks share, it is thrown by all of them at once.
ProcessLayout make_layout(int ranks, std::optional<int> stages, int replicas);

}  // namespace pipefill
