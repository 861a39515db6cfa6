#include "worker/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace pipefill {

FutexWake futex_wait(const FutexWord& word, std::uint32_t expected, Nanoseconds timeout) {
  if (timeout.count() <= 0)
    return word.load(std::memory_order_acquire) == expected ? FutexWake::timed_out : FutexWake::changed;
  const timespec limit{static_cast<time_t>(timeout.count() / 1'000'000'000),
                       static_cast<long>(timeout.count() % 1'000'000'000)};
  const long result = ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
  return result < 0 && errno == ETIMEDOUT ? FutexWake::timed_out : FutexWake::changed;
}

void futex_wake(const FutexWord& word) { ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

void futex_bump(FutexWord& word) {
  word.fetch_add(1, std::memory_order_acq_rel);
  futex_wake(word);
}

}  // namespace pipefill
