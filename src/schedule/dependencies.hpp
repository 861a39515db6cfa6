// What every instruction of a schedule waits for besides its predecessor in the program: the one place that knows how
// data flows from chunk to chunk. Dry run, pricing and the passes all read this.
#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace pipefill {

/// An instruction by its place.
struct Place {
  int stage = 0;
  int index = 0;  ///< in the stage's program
  auto operator<=>(const Place&) const = default;
};

/// local: done when `on` has ended. message: one hop later. reduction: when the reduction started by `on` is done.
enum class Link { local, message, reduction };
struct Dependency {
  Place on;
  Link link = Link::local;
};

/// eager: a send returns at once. synchronous: it returns when the receive has been posted.
enum class SendMode { eager, synchronous };

/// [stage][index] -> dependencies. In a schedule with communication a consumer depends on its receive and on the peer's
/// send; in a compute-only one directly on the producer. What is not in the schedule counts as there (fragments).
/// OptimizerStep depends on all gradients of all stages, because of the global norm.
using Dependencies = std::vector<std::vector<std::vector<Dependency>>>;
Dependencies find_dependencies(const Schedule& schedule, SendMode mode = SendMode::eager);

/// Forward, Backward, BackwardInput or BackwardWeight.
bool is_compute(const Instruction& instruction);
bool has_communication(const Schedule& schedule);
bool has_backward(const Schedule& schedule);

/// True for a Forward, Backward or BackwardInput whose input is made on another stage. Chunks must be in range.
bool waits_for_message(const Schedule& schedule, const Instruction& instruction);

}  // namespace pipefill
