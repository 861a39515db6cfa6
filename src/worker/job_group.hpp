// A cgroup for one fill job: the worker, while it has the job, and all that the job starts are counted together by the
// kernel, and what goes over a limit is ended or refused at once. Wherever this process may not make one, LimitWatch
// (worker/limits.hpp) counts instead, twenty times a second.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "worker/job_file.hpp"

namespace pipefill {

/// Moves this process into groups of its own: of the pids controller for limits.processes, of the memory controller for
/// limits.memory (v1: a hierarchy each; v2: one group, where this process's own hands both down). Leaves and removes
/// them at the end, when all that the job started must have been killed.
class JobGroup {
 public:
  explicit JobGroup(const FillLimits& limits);
  ~JobGroup();
  JobGroup(const JobGroup&) = delete;
  JobGroup& operator=(const JobGroup&) = delete;

  /// Whether this process seems to be allowed to make a group with that controller ("pids", "memory").
  static bool may_be_made(const std::string& controller);
  bool counts_memory() const { return counts_memory_; }
  /// How many processes of the group the kernel ended because it had no memory left.
  std::int64_t killed_for_memory() const;

  // For the rank, which is where the worker was before it had a job: of the groups that a killed worker left.
  static std::int64_t killed_for_memory(int worker_pid);
  static void remove_of(int worker_pid);

 private:
  struct Group {
    std::string home, path;
  };
  bool limit(const std::string& home, const std::vector<std::pair<std::string, std::string>>& values);

  std::vector<Group> groups_;
  bool counts_memory_ = false;
};

}  // namespace pipefill
