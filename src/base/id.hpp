// Typed indices, so that a microbatch is never passed where a stage is meant. All count from 0.
#pragma once

#include <compare>
#include <functional>

namespace pipefill {

template <class Tag>
struct Id {
  int value = 0;
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using RankId = Id<struct RankTag>;              ///< MPI process
using StageId = Id<struct StageTag>;            ///< position 0..P-1 in the pipeline
using ReplicaId = Id<struct ReplicaTag>;        ///< data-parallel copy of the pipeline, 0..R-1
using ModelChunkId = Id<struct ModelChunkTag>;  ///< contiguous layers, 0..P*v-1 in the model's order
using MicrobatchId = Id<struct MicrobatchTag>;  ///< part of a step, 0..M-1

}  // namespace pipefill

template <class Tag>
struct std::hash<pipefill::Id<Tag>> {
  std::size_t operator()(pipefill::Id<Tag> id) const noexcept { return std::hash<int>{}(id.value); }
};
