// The processes below a process, for work that starts others: who they are, how much CPU time they used, and signals
// to all of them, also to those that left their process group or session. Looks only in /proc.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.hpp"

namespace pipefill {

/// A process that a number alone would not name for long: numbers come again, start times do not.
struct ProcessName {
  int pid = 0;
  std::uint64_t started = 0;  ///< clock ticks after boot
  friend bool operator==(const ProcessName&, const ProcessName&) = default;
};

struct ProcessFacts {
  ProcessName name;
  int parent = 0;
  int group = 0;
  char state = '?';    ///< R, S, D, T (stopped), Z
  Nanoseconds cpu{0};  ///< its own and that of its children that ended and were waited for
  Bytes resident{0};
};

/// Everything below `pid`, parents before children; without `pid` itself. A process that forks faster than this looks
/// may be ahead by some.
std::vector<ProcessFacts> descendants(int pid);
/// False when there is no such process (any more).
bool read_process(int pid, ProcessFacts& facts);
/// SIGKILL to everything below `pid`, again and again until nothing is left (a fork bomb makes new ones while the old
/// ones end), but not for ever. Those that are this process's own children are waited for.
void kill_descendants(int pid);
/// Sends `signal` unless the number belongs to another process by now.
void signal_process(const ProcessName& process, int signal);

}  // namespace pipefill
