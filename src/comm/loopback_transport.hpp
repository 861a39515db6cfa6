// Ranks as threads of one process, without MPI: how tests run a pipeline. Sends copy and are done at once, or are
// synchronous (done only when received, no copy, as MPI_Ssend); faults can be injected.
#pragma once

#include <functional>
#include <memory>

#include "comm/transport.hpp"

namespace pipefill {

enum class SendMode { buffered, synchronous };

/// What becomes of a message. The default delivers it at once.
struct LoopbackFault {
  bool drop = false;
  Nanoseconds delay{};  ///< under way for this long; later messages of the same tag wait behind it
};
using FaultHook = std::function<LoopbackFault(RankId from, RankId to, Tag tag)>;

struct LoopbackOptions {
  SendMode send = SendMode::buffered;
  FaultHook fault;  ///< called under a lock by the sender
};

/// The medium between `size` endpoints. Outlives none of them by itself: endpoints share its state.
class LoopbackHub {
 public:
  explicit LoopbackHub(int size, LoopbackOptions options = {});
  /// The transport of one rank, to be used by one thread at a time.
  std::unique_ptr<Transport> endpoint(RankId rank);
  /// Every test() of every endpoint throws TransportError from now on.
  void abort(int exit_code);
  /// The code given to abort, by anyone; 0 while nobody did.
  int abort_code() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

/// Runs body(transport) as `size` ranks on as many threads. When one throws, the others are aborted; the first
/// exception is rethrown once all have ended.
void run_loopback(int size, const std::function<void(Transport&)>& body, LoopbackOptions options = {});

}  // namespace pipefill
