// Looks at the counts of signals every few milliseconds.
#include "start_up_watch.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "engine/signals.hpp"

namespace pipefill {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(20);

bool asked_to_stop() {
  const SignalCounts signals = signals_seen();
  return signals.stop > 0 || signals.terminate > 0;
}

}  // namespace

StartUpWatch::StartUpWatch(std::function<void()> stop)
    : thread_([stop = std::move(stop)](std::stop_token ended) {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        while (!asked_to_stop()) {
          wake.wait_for(lock, ended, kInterval, [] { return false; });
          if (ended.stop_requested()) return;
        }
        stop();
      }) {}

}  // namespace pipefill
