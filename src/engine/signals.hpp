// What the outside asked of this process. The handlers only count; the trainer and the watchdog read the counts.
// This is the one piece of global state in the program, for a signal handler can reach nothing else.
#pragma once

#include <atomic>

namespace pipefill {

struct SignalCounts {
  int checkpoint = 0;  ///< USR1: save at the next step and go on
  int stop = 0;        ///< USR2: save and stop (exit 75)
  int terminate = 0;   ///< TERM or INT: stop at the next step; the second one ends everything at once
};

/// Install before MPI_Init, so that a signal during start-up is not lost.
void install_signal_handlers();

SignalCounts signals_seen();

/// Set by the second TERM or INT: every wait and every computation gives up at once.
const std::atomic<bool>& end_at_once();

/// Forget the checkpoint requests counted so far (they were served).
void clear_checkpoint_signals();

}  // namespace pipefill
