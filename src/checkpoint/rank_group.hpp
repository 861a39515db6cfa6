// How the ranks of a run act as one while they save and load: a single collective, everybody's text to everybody. It
// serves as barrier, as agreement on failures and as the collection of what each rank wrote.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace pipefill {

class Transport;
class Waiter;

struct RankGroup {
  int rank = 0;
  int size = 1;
  /// Every rank's text in rank order, the same on all ranks. All ranks call it in the same order. Blocks.
  std::function<std::vector<std::string>(const std::string& mine)> gather;
};

/// One process without peers: tools, tests, P = R = 1.
RankGroup single_rank();

/// Over a transport. Each wait may take `deadline`, which must cover the slowest rank's writing or reading; it replaces
/// the waiter's own for the time of the call. Both must outlive the group. Throws TransportError when a peer is lost.
RankGroup ranks_over(Transport& transport, Waiter& waiter, Nanoseconds deadline = std::chrono::minutes(10));

/// Calls `work` on every rank and then lets all ranks know: throws the first failing rank's error, with its exit code
/// and text, on every rank as a SharedError, so that none goes on alone. Its text names the rank ("rank 2: ...").
void all_or_none(const RankGroup& ranks, const std::function<void()>& work);

}  // namespace pipefill
