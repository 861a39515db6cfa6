#include "comm/wait.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/liveness_board.hpp"

namespace pipefill {
namespace {

class SpinPause final : public Pause {
 public:
  void pause() override { __builtin_ia32_pause(); }
};

class YieldPause final : public Pause {
 public:
  void pause() override { sched_yield(); }
};

class SleepPause final : public Pause {
 public:
  void begin() override {
    // The slack belongs to the thread; asking each time costs less than one of the sleeps it shortens.
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    nap_ = kShortest;
  }
  void pause() override {
    const timespec nap{0, nap_};
    nanosleep(&nap, nullptr);
    nap_ = std::min(nap_ * 3 / 2, kLongest);
  }

 private:
  static constexpr long kShortest = 5'000;
  static constexpr long kLongest = 100'000;
  long nap_ = kShortest;
};

}  // namespace

std::unique_ptr<Pause> make_pause(WaitMethod method) {
  switch (method) {
    case WaitMethod::spin:
      return std::make_unique<SpinPause>();
    case WaitMethod::yield:
      return std::make_unique<YieldPause>();
    case WaitMethod::sleep:
      break;
  }
  return std::make_unique<SleepPause>();
}

Waiter::Waiter(ProcessLayout layout, RankId me, WaitSettings settings, LivenessBoard* board)
    : layout_(layout), me_(me), settings_(settings), board_(board), pause_(make_pause(settings.method)) {}

void Waiter::wait(Transport& transport, Request& request, const WaitSubject& subject) {
  wait(transport, request, subject, *pause_);
}

void Waiter::wait(Transport& transport, Request& request, const WaitSubject& subject, Pause& pause) {
  if (!request.pending()) return;
  wait_until([&] { return transport.test(request); }, subject, pause);
}

Waiter::Announcement::Announcement(const Waiter& waiter, const WaitSubject& subject) : board_(waiter.board_) {
  if (board_) board_->waiting(subject);
}

Waiter::Announcement::~Announcement() {
  if (board_) board_->waiting({});
}

void Waiter::check(Nanoseconds waited, const WaitSubject& subject) const {
  if (settings_.stop && settings_.stop->load(std::memory_order_relaxed)) {
    throw TransportError(fmt::format("{} stopped waiting for {} in step {}: the run is being ended",
                                     describe(me_, layout_), describe(subject, layout_), subject.step));
  }
  if (waited > settings_.deadline) {
    throw TransportError(fmt::format(
        "{} waited {} for {} in step {}, longer than the deadline of {}: that rank is lost, hangs, or the message was "
        "lost; the run cannot go on and is ended, resume it from the last checkpoint",
        describe(me_, layout_), format_duration(waited), describe(subject, layout_), subject.step,
        format_duration(settings_.deadline)));
  }
}

}  // namespace pipefill
