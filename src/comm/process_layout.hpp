// Which rank is which stage of which replica. Values in, values out; every rank computes the same answer.
#pragma once

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

}  // namespace pipefill
