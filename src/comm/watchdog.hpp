// A thread per rank that notices when another rank of the host dies (pidfd, at once) or hangs (its heart stops beating,
// or its main thread neither works nor waits), says so, and calls a handler. It makes no MPI call and takes no lock
// that the main thread holds for long.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "base/log.hpp"
#include "comm/liveness_board.hpp"

namespace pipefill {

enum class LossKind { died, hung };

struct Loss {
  LossKind kind = LossKind::died;
  RankState peer;    ///< as last seen on the board
  std::string text;  ///< who was lost, doing what, and what this rank waited for; already logged
};

class Watchdog {
 public:
  /// `on_loss` runs on the watchdog's thread, once, at the first loss, when all survivors of the host have logged it
  /// (half a second at the most, for an abort would silence those who have not); usually it writes status.json and
  /// calls Transport::abort(76). Under mpirun the others get TERM one second after a death: the text is out before.
  Watchdog(LivenessBoard& board, ProcessLayout layout, Log log, std::function<void(const Loss&)> on_loss);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// A rank is hung when its heart does not beat for this time (its process is stopped; 10 s until this is called), or
  /// when, once this was called, its main thread neither moves on nor waits nor does what may_take_long. The engine
  /// calls it with max(10 s, 8 x p99 step) once it knows its steps. Time in which a rank's main thread was ready but
  /// got no processor, or waited for a disk, does not count against it; nor does time in which this thread itself stood
  /// still.
  void set_limit(Nanoseconds limit) { limit_ns_.store(limit.count(), std::memory_order_relaxed); }

 private:
  void run();
  void await_other_reports(RankId lost) const;
  std::string describe_loss(LossKind kind, const RankState& peer, Nanoseconds silent) const;

  LivenessBoard* board_;
  ProcessLayout layout_;
  Log log_;
  std::function<void(const Loss&)> on_loss_;
  std::atomic<std::int64_t> limit_ns_;
  int wake_ = -1;  ///< eventfd: the destructor's call
  std::thread thread_;
};

}  // namespace pipefill
