// A worker process as its rank's helper thread handles it: spawned, watched through a pidfd, signalled with all its
// children, reaped.
#pragma once

#include <string>
#include <vector>

#include "comm/doorbells.hpp"
#include "fill_jobs/process_tree.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {

/// idle: runs only when nobody else wants the core (0.3 % of it beside a busy thread). normal: for comparison.
enum class WorkerPriority { idle, normal };

/// Where a worker finds the memory it shares with its rank.
inline constexpr int kChannelNumber = 3;
inline constexpr int kDoorbellNumber = 4;

/// That memory.
struct WorkerMemory {
  int channel = -1;
  DoorbellPlace doorbell{};
};

class WorkerProcess {
 public:
  /// posix_spawn (never fork: the rank may hold gigabytes): own process group, idle class from its exec on
  /// (unless `priority` is normal), fixed environment, no descriptors but the first three and those of `memory` behind
  /// them. FileError 74. The calling thread must live as long as the process: the kernel ends the child when its
  /// creator thread ends.
  static WorkerProcess spawn(const std::string& program, const std::vector<std::string>& arguments, WorkerMemory memory,
                             int threads, WorkerPriority priority);
  WorkerProcess(WorkerProcess&&) = default;
  WorkerProcess& operator=(WorkerProcess&&) = default;

  int pid() const { return name_.pid; }
  int descriptor() const { return pidfd_.get(); }  ///< readable when the process has ended
  /// All below it, with what it left behind when it ended (as far as an earlier call saw them).
  const std::vector<ProcessFacts>& look_at_children();
  /// SIGKILL to it and to everything that the last look_at_children saw.
  void kill_all();
  /// Waits for its end (which must be near), kills what it left behind, and says how it came: "was killed by signal 11
  /// (Segmentation fault)". Orphans are found where this process is a subreaper, by kWorkerMark in their environment.
  std::string reap();

 private:
  WorkerProcess(ProcessName name, FileDescriptor pidfd, std::string mark)
      : name_(name), pidfd_(std::move(pidfd)), mark_(std::move(mark)) {}
  void kill_orphans() const;
  ProcessName name_;
  FileDescriptor pidfd_;
  std::string mark_;  ///< "PIPEFILL_FILL_WORKER=..." of this one alone
  std::vector<ProcessFacts> children_;
};

}  // namespace pipefill
