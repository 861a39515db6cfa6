#include "comm/process_layout.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace pipefill {

ProcessLayout make_layout(int ranks, std::optional<int> stages, int replicas) {
  if (ranks < 1 || replicas < 1 || (stages && *stages < 1)) {
    throw DeckError(fmt::format("parallel.stages {} and parallel.replicas {} with {} ranks: all must be at least 1",
                                stages ? std::to_string(*stages) : "auto", replicas, ranks));
  }
  if (!stages) {
    if (ranks % replicas != 0) {
      throw DeckError(
          fmt::format("parallel.replicas {} does not divide the {} ranks started, so parallel.stages cannot be worked "
                      "out; start a multiple of {} ranks or change parallel.replicas",
                      replicas, ranks, replicas));
    }
    return {ranks / replicas, replicas};
  }
  const long long wanted = static_cast<long long>(*stages) * replicas;
  if (wanted != ranks) {
    throw DeckError(fmt::format(
        "parallel.stages {} x parallel.replicas {} needs {} ranks, but {} were started; use mpirun -n {} or "
        "change the deck (parallel.stages: auto takes ranks / replicas)",
        *stages, replicas, wanted, ranks, wanted));
  }
  return {*stages, replicas};
}

}  // namespace pipefill
