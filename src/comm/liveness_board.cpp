#include "comm/liveness_board.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/contract.hpp"
#include "base/error.hpp"
#include "comm/cluster.hpp"
#include "comm/shared_memory.hpp"

namespace pipefill {
namespace {

/// Two cache lines, so that no rank's writes disturb another's (adjacent-line prefetch included).
struct alignas(128) Row {
  std::atomic<std::int64_t> pid;
  std::atomic<std::uint64_t> pid_namespace;
  std::atomic<std::int64_t> step;
  std::atomic<std::uint64_t> activity;
  std::atomic<std::uint64_t> waiting;
  std::atomic<std::uint64_t> heart_beats;
  std::atomic<std::uint64_t> progress;
  std::atomic<bool> reported;
  std::atomic<bool> finished;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // else it would not work between processes

template <class T>
void write(std::atomic<T>& cell, T value) {
  cell.store(value, std::memory_order_relaxed);
}

/// Only the owner writes, so no read-modify-write is needed.
void increment(std::atomic<std::uint64_t>& cell) { write(cell, cell.load(std::memory_order_relaxed) + 1); }

}  // namespace

struct LivenessBoard::Memory {
  Memory(std::vector<RankId> members, int fd) : ranks(std::move(members)), size(ranks.size() * sizeof(Row)) {
    rows =
        static_cast<Row*>(map_shared_memory(fd, size, "the liveness board"));  // zero pages: the atomics' initial state
  }
  ~Memory() { munmap(rows, size); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::size_t index(RankId rank) const {
    const auto at = std::find(ranks.begin(), ranks.end(), rank);
    PF_EXPECT(at != ranks.end());
    return static_cast<std::size_t>(at - ranks.begin());
  }

  std::vector<RankId> ranks;
  std::size_t size;
  Row* rows = nullptr;
};

LivenessBoard::LivenessBoard(const Cluster& cluster) {
  const std::vector<RankId> ranks = cluster.local_ranks();
  const int fd = cluster.open_host_memory("board", static_cast<std::int64_t>(ranks.size() * sizeof(Row)));
  try {
    memory_ = std::make_shared<Memory>(ranks, fd);
  } catch (...) {
    close(fd);
    throw;
  }
  close(fd);
  row_ = memory_->index(cluster.rank());
  enrol();
  cluster.barrier();  // from here on every row has its pid
}

LivenessBoard::LivenessBoard(std::vector<RankId> ranks, RankId mine)
    : LivenessBoard(std::make_shared<Memory>(std::move(ranks), -1), mine) {}

LivenessBoard::LivenessBoard(std::shared_ptr<Memory> memory, RankId mine)
    : memory_(std::move(memory)), row_(memory_->index(mine)) {
  enrol();
}

LivenessBoard LivenessBoard::view(RankId mine) const { return LivenessBoard(memory_, mine); }

LivenessBoard::~LivenessBoard() = default;
LivenessBoard::LivenessBoard(LivenessBoard&&) noexcept = default;
LivenessBoard& LivenessBoard::operator=(LivenessBoard&&) noexcept = default;

void LivenessBoard::enrol() {
  Row& row = memory_->rows[row_];
  struct stat name_space {};
  if (stat("/proc/self/ns/pid", &name_space) == 0) write(row.pid_namespace, std::uint64_t{name_space.st_ino});
  row.pid.store(getpid(), std::memory_order_release);
}

void LivenessBoard::step(std::int64_t step) {
  write(memory_->rows[row_].step, step);
  increment(memory_->rows[row_].progress);
}

void LivenessBoard::doing(Activity activity) {
  write(memory_->rows[row_].activity, pack(activity));
  increment(memory_->rows[row_].progress);
}

void LivenessBoard::waiting(const WaitSubject& subject) {
  write(memory_->rows[row_].waiting, pack(subject));
  increment(memory_->rows[row_].progress);
}

void LivenessBoard::beat() { increment(memory_->rows[row_].heart_beats); }

void LivenessBoard::report() { memory_->rows[row_].reported.store(true, std::memory_order_release); }

void LivenessBoard::finish() { memory_->rows[row_].finished.store(true, std::memory_order_release); }

RankId LivenessBoard::mine() const { return memory_->ranks[row_]; }
const std::vector<RankId>& LivenessBoard::ranks() const { return memory_->ranks; }

RankState LivenessBoard::state(RankId rank) const {
  const Row& row = memory_->rows[memory_->index(rank)];
  RankState state;
  state.rank = rank;
  state.finished = row.finished.load(std::memory_order_acquire);
  state.reported = row.reported.load(std::memory_order_acquire);
  state.pid = static_cast<int>(row.pid.load(std::memory_order_acquire));
  state.pid_namespace = row.pid_namespace.load(std::memory_order_relaxed);
  state.step = row.step.load(std::memory_order_relaxed);
  state.activity = unpack_activity(row.activity.load(std::memory_order_relaxed));
  state.waiting = unpack_wait(row.waiting.load(std::memory_order_relaxed));
  state.waiting.step = state.step;
  state.heart_beats = row.heart_beats.load(std::memory_order_relaxed);
  state.progress = row.progress.load(std::memory_order_relaxed);
  return state;
}

}  // namespace pipefill
