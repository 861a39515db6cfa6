// Sleeping on a word of shared memory until another process changes it. std::atomic::wait never wakes another process
// (it uses PRIVATE futexes or a table of this process); these are raw futex(2) calls, and every wait has a time-out,
// for a killed process wakes nobody.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.hpp"

namespace pipefill {

using FutexWord = std::atomic<std::uint32_t>;
static_assert(sizeof(FutexWord) == 4 && FutexWord::is_always_lock_free);

enum class FutexWake {
  changed,  ///< the word no longer holds the expected value, or somebody woke us (look again)
  timed_out
};

/// Sleeps while `word` holds `expected`, for at most `timeout`. A signal ends the sleep too (changed).
FutexWake futex_wait(const FutexWord& word, std::uint32_t expected, Nanoseconds timeout);
/// Wakes everybody who sleeps on `word`, in any process that maps it.
void futex_wake(const FutexWord& word);
/// Adds one and wakes: the change is what a sleeper looks for.
void futex_bump(FutexWord& word);

}  // namespace pipefill
