// A request to stop that comes before the first step: nothing is lost then, so nobody needs to wait for a step to end.
#pragma once

#include <functional>
#include <thread>

namespace pipefill {

/// A thread that looks for USR2, TERM and INT (engine/signals.hpp) until it is destroyed, and calls `stop` at the first
/// one, on its own thread, whatever the main thread is busy with.
class StartUpWatch {
 public:
  explicit StartUpWatch(std::function<void()> stop);

 private:
  std::jthread thread_;
};

}  // namespace pipefill
