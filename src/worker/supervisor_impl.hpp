// The inside of Supervisor: what its main-thread half (supervisor.cpp) and its helper half (supervisor_helper.cpp)
// share.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "worker/supervisor.hpp"
#include "worker/worker_process.hpp"

namespace pipefill {

/// What a stop has to stop beside the worker itself: kill(2)'s first argument. Fixed room: the main thread reads it.
struct StopTargets {
  static constexpr std::size_t kRoom = 64;
  std::array<int, kRoom> targets = {};
  std::size_t count = 0;
  int program_group = 0;  ///< the one among them that the job announced
};

class Supervisor::Impl {
 public:
  Impl(SupervisorSettings settings, Log log);
  ~Impl();

  void start();
  bool wait_ready(Nanoseconds timeout);
  std::uint64_t assign(const std::string& directory, const std::string& configuration);
  void drop();
  void save();
  AssignedJob job();
  bool wants_grant() const;
  std::uint64_t grant(Nanoseconds deadline, Bytes memory);
  FutexWake wait_news(Nanoseconds timeout);
  ParkResult stop();
  void signal_helper();

  WorkerChannel channel;
  std::atomic<int> pid{0};
  std::atomic<std::int64_t> restarts{0};
  Nanoseconds hard_stopped_time{0};
  std::int64_t hard_stops = 0;

 private:
  enum class Wish { none, assign, drop };

  // Main thread.
  void resume();
  bool stop_programs();
  void charge(Nanoseconds until);
  void count_overrun();

  // Helper thread.
  void help();
  void sleep_until_news();
  void spawn();
  void look();
  void post_wishes();
  void read_report();
  void bury();
  void fail_job(const std::string& message, bool for_good);
  void look_at_programs();
  void kill_if_hanging();
  void kill_if_unready();
  void kill_if_overrunning();
  void kill_for(std::string reason);
  void say_farewell();
  bool has_worker() const { return process_ || thread_.joinable(); }

  const SupervisorSettings settings_;
  const Log log_;
  FileDescriptor bell_;  ///< eventfd: something to do for the helper
  std::atomic<bool> alive_{false};

  // Main thread's own.
  bool open_ = false;
  Nanoseconds open_since_{0};
  Nanoseconds deadline_{0};  ///< of the grant
  bool hard_stopped_ = false;
  Nanoseconds hard_stopped_since_{0};
  std::uint64_t reports_told_ = 0;
  std::uint32_t ticket_ = 0;

  // What a chunk has been granted so far, for finding hangs. Written by the main thread.
  std::atomic<std::int64_t> charged_chunk_{0};  ///< its start, which names it
  std::atomic<std::int64_t> charged_ns_{0};
  std::atomic<std::int64_t> open_since_ns_{0};  ///< 0: no grant is open

  // Chunks of the present try that were stopped hard after their deadline, each counted once. Written by the main
  // thread.
  std::atomic<std::int64_t> overruns_{0};
  std::int64_t overrun_chunk_ = 0;  ///< main thread's: start of the last one, which names it

  std::mutex mutex_;  ///< guards what follows
  AssignedJob job_;
  Wish wish_ = Wish::none;
  bool wants_worker_ = false, wants_save_ = false, ends_ = false;
  StopTargets targets_;
  std::uint64_t serials_ = 0;

  // Helper thread's own.
  std::optional<WorkerProcess> process_;
  std::thread thread_;  ///< of an in_process worker
  std::uint64_t reports_at_post_ = 0;
  Nanoseconds next_spawn_{0};
  Nanoseconds preparing_since_{0};  ///< 0: it does not
  std::int64_t done_at_try_ = 0;    ///< chunks, when the present try began
  int unready_deaths_ = 0;
  bool was_ready_ = false, ever_spawned_ = false;
  std::string kill_reason_;
  bool killed_for_overruns_ = false;  ///< a failure that progress does not make up for
  std::thread helper_;                // last: it uses the others
};

}  // namespace pipefill
