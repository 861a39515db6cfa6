// The head of a job's state: whether the state has its initial contents yet, and which job it belongs to.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/error.hpp"
#include "model/carver.hpp"

namespace pipefill {

struct StateHead {
  std::uint64_t ready = 0;  ///< 1: the initial contents are complete
  std::uint64_t identity = 0;

  static StateHead* carve(Carver& carver) { return carver.take<StateHead>(1); }

  /// Calls `fill` unless an earlier try filled the state to the end. A state of another description of work is a
  /// DeckError: going on would mix two jobs' results.
  template <class Fill>
  void fill_once(std::uint64_t job_identity, const Fill& fill) {
    if (ready == 0) {
      fill();
      identity = job_identity;
      std::atomic_ref(ready).store(1, std::memory_order_release);  // last: a kill before it means filling again
    } else if (identity != job_identity) {
      throw DeckError(
          "the job has been changed (its parameters, seed, threads or shard) since it began; its state belongs to the "
          "job as it was. Undo the change, or submit it as a new job.");
    }
  }
};

}  // namespace pipefill
