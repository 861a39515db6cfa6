// MPI life time, and who runs where: rank, host, local rank. Only `train` makes a Cluster. mpi.h stays out of headers.
#pragma once

#include <string>
#include <vector>

#include "base/id.hpp"
#include "base/units.hpp"
#include "comm/process_layout.hpp"

namespace pipefill {

struct RankInfo {
  RankId rank;
  std::string host;
  int pid = 0;
  RankId host_leader;  ///< least rank of its host; equal for ranks of one host
  int local_rank = 0;  ///< position among the ranks of its host (MPI_Comm_split_type, no launcher's variables)
  int local_size = 1;
  std::string clock_domain;  ///< equal for ranks that share CLOCK_MONOTONIC (boot id and time namespace)
  std::string core_mask{};   ///< processors it may run on at start, as the kernel prints them ("0-3,8"): for comparing
};

/// MPI from MPI_Init_thread to MPI_Finalize. Make exactly one, on the main thread, and destroy it last.
/// Level asked for: MPI_THREAD_FUNNELED. All MPI calls come from the thread that made the Cluster, the one exception
/// being MPI_Abort from a watchdog (see end_all_ranks).
class Cluster {
 public:
  Cluster();
  /// Finalizes. While an exception unwinds it does so only if every rank unwinds within a second (an error that all
  /// ranks share, a bad deck say, ends quietly); otherwise MPI stays up and main's catch calls end_all_ranks.
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  RankId rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::vector<RankInfo>& ranks() const { return ranks_; }  ///< indexed by rank
  const RankInfo& mine() const { return ranks_[static_cast<std::size_t>(rank_.value)]; }
  /// The ranks of this rank's host, ascending.
  std::vector<RankId> local_ranks() const;

  /// All ranks arrive; blocking, for start and end only.
  void barrier() const;

  /// Collective over the ranks of each host: a file descriptor of `size` zero bytes that they share (POSIX shared
  /// memory, mode 0600, its name unlinked before this returns). The caller closes it. `purpose` goes into the name.
  int open_host_memory(const std::string& purpose, std::int64_t size) const;

 private:
  RankId rank_;
  std::vector<RankInfo> ranks_;
};

/// Lines "rank  host  local  pid  stage  replica" for the log.
std::string placement_table(const std::vector<RankInfo>& ranks, ProcessLayout layout);

/// Ends all ranks with this code, from any thread, even while the main thread sits inside MPI: MPI_Abort on a helper
/// thread and, should that not end the process in two seconds, _exit(code), which makes mpirun end the others.
/// Without MPI (not yet initialised, or finalized) it is _exit(code). Flushes stdout and stderr first.
[[noreturn]] void end_all_ranks(int exit_code);

}  // namespace pipefill
