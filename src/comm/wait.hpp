// Waiting: the one place where a rank's main thread waits for anything. Every wait has a deadline and says on the
// liveness board what it is for; how the time between two tests is spent is a Pause.
#pragma once

#include <atomic>
#include <concepts>
#include <memory>

#include "base/clock.hpp"
#include "comm/activity.hpp"
#include "comm/transport.hpp"

namespace pipefill {

class LivenessBoard;

/// spin: test again at once (wakes within 1 us, burns the core). yield: sched_yield between tests. sleep: nanosleep,
/// from 5 us backing off to 100 us, timer slack 1 ns (without it a sleep lasts 55 us at the least).
enum class WaitMethod : std::uint8_t { spin, yield, sleep };

/// How the time between two tests is spent. One object serves one thread. A pause that fills the bubble is one more
/// implementation of this.
class Pause {
 public:
  virtual ~Pause() = default;
  virtual void begin() {}    ///< a new wait starts
  virtual void pause() = 0;  ///< returns when it is time to test again
};
std::unique_ptr<Pause> make_pause(WaitMethod method);

struct WaitSettings {
  WaitMethod method = WaitMethod::sleep;
  Nanoseconds deadline = std::chrono::seconds(60);  ///< of each single wait
  const std::atomic<bool>* stop = nullptr;          ///< set by another thread: every wait gives up at once
};

class Waiter {
 public:
  /// `board` may be null (tests, tools); both it and settings.stop must outlive the Waiter.
  Waiter(ProcessLayout layout, RankId me, WaitSettings settings, LivenessBoard* board = nullptr);

  /// Until the request is done. TransportError when the deadline passes (which rank and stage waited for what from
  /// whom, in which step, how long), when the stop flag is set, or from the transport itself.
  void wait(Transport& transport, Request& request, const WaitSubject& subject);
  void wait(Transport& transport, Request& request, const WaitSubject& subject, Pause& pause);

  /// Until done() is true; done must move the transport along (Transport::test or progress, ReplicaReduction::test).
  template <std::predicate Done>
  void wait_until(Done&& done, const WaitSubject& subject) {
    wait_until(done, subject, *pause_);
  }
  template <std::predicate Done>
  void wait_until(Done&& done, const WaitSubject& subject, Pause& pause) {
    if (done()) return;
    const Announcement announcement(*this, subject);
    const Nanoseconds start = now();
    pause.begin();
    Nanoseconds waited{0};  // read before each look: what came while this thread was held up is not late
    do {
      check(waited, subject);
      pause.pause();
      waited = now() - start;
    } while (!done());
  }

  void set_deadline(Nanoseconds deadline) { settings_.deadline = deadline; }
  Nanoseconds deadline() const { return settings_.deadline; }
  WaitMethod method() const { return settings_.method; }

 private:
  /// Says on the board what is waited for, and takes it back.
  class Announcement {
   public:
    Announcement(const Waiter& waiter, const WaitSubject& subject);
    ~Announcement();
    Announcement(const Announcement&) = delete;
    Announcement& operator=(const Announcement&) = delete;

   private:
    LivenessBoard* board_;
  };
  /// Throws when the stop flag is set or `waited` is longer than the deadline.
  void check(Nanoseconds waited, const WaitSubject& subject) const;

  ProcessLayout layout_;
  RankId me_;
  WaitSettings settings_;
  LivenessBoard* board_;
  std::unique_ptr<Pause> pause_;
};

}  // namespace pipefill
