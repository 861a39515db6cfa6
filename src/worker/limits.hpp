// What keeps a job within its limits, inside the worker process: rlimits while the job is loaded, and a thread that
// looks at output, disk and children and ends the worker when they grow over the limits; a cgroup besides, where it may
// make one (worker/job_group.hpp). All of it runs in the worker's idle class and costs the rank nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "worker/job_directory.hpp"

namespace pipefill {

/// What the worker itself may take beside the job: stacks, buffers.
inline constexpr Bytes kWorkerMemory{16 << 20};

/// Soft limits of this process for the time of the object: address space (what is mapped now, `state`, and the job's
/// memory), file size, CPU time, no core files.
class ProcessLimits {
 public:
  ProcessLimits(const FillLimits& limits, Bytes state);
  ~ProcessLimits();
  ProcessLimits(const ProcessLimits&) = delete;
  ProcessLimits& operator=(const ProcessLimits&) = delete;

 private:
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

/// Looks every 50 ms, from a thread. `violated` is called once, on that thread, with what is over which limit.
class LimitWatch {
 public:
  LimitWatch(const JobDirectory& directory, const FillLimits& limits, std::function<void(const std::string&)> violated);
  ~LimitWatch();
  LimitWatch(const LimitWatch&) = delete;
  LimitWatch& operator=(const LimitWatch&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pipefill
