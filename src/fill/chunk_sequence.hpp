// The chunks of a fill job in one configuration, in order, kept small: equal chunks lie together as a run, runs that
// repeat (one batch after another) as a group. A job of 10^6 chunks takes some hundred bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/contract.hpp"
#include "base/units.hpp"

namespace pipefill {

/// Equal chunks in a row.
struct ChunkRun {
  std::int64_t count = 1;
  int cost_class = 0;  ///< chunks of one class take about the same time
  Bytes memory{};      ///< of one chunk while it runs, beside the job's state
  double samples = 0;  ///< of the job's useful work, done with one chunk
  friend bool operator==(const ChunkRun&, const ChunkRun&) = default;
};

class ChunkSequence {
 public:
  /// Behind the last chunk. `run.count` >= 1.
  void append(ChunkRun run);

  std::int64_t size() const { return size_; }
  /// How many runs are stored.
  std::size_t stored_runs() const;

  /// Chunks from `from` on, in order: visit(const ChunkRun&, std::int64_t count) for each run, where `count` is how
  /// much of it lies behind `from`; ends when visit returns false.
  template <class Visit>
  void walk(std::int64_t from, Visit&& visit) const {
    for (const Group& group : groups_) {
      if (from >= group.chunks * group.repeats) {
        from -= group.chunks * group.repeats;
        continue;
      }
      for (std::int64_t repeat = from / group.chunks; repeat < group.repeats; ++repeat, from = 0) {
        std::int64_t skip = from % group.chunks;
        if (!walk_runs(group.runs, skip, visit)) return;
      }
    }
    walk_runs(tail_, from, visit);
  }

  /// The same chunks in any order: one visit(const ChunkRun&, std::int64_t count) for all repeats of a run.
  template <class Visit>
  void total(std::int64_t from, Visit&& visit) const {
    const auto all = [&](const ChunkRun& run, std::int64_t count) { return visit(run, count), true; };
    for (const Group& group : groups_) {
      const std::int64_t whole = std::max<std::int64_t>(0, group.repeats - (from + group.chunks - 1) / group.chunks);
      std::int64_t skip = from % group.chunks;
      if (skip != 0 && from < group.chunks * group.repeats) walk_runs(group.runs, skip, all);
      if (whole > 0)
        for (const ChunkRun& run : group.runs) visit(run, run.count * whole);
      from = std::max<std::int64_t>(0, from - group.chunks * group.repeats);
    }
    walk_runs(tail_, from, all);
  }

 private:
  struct Group {
    std::vector<ChunkRun> runs;
    std::int64_t chunks = 0;  ///< in one repeat
    std::int64_t repeats = 1;
  };

  template <class Visit>
  static bool walk_runs(const std::vector<ChunkRun>& runs, std::int64_t& skip, Visit&& visit) {
    for (const ChunkRun& run : runs) {
      if (skip >= run.count) {
        skip -= run.count;
        continue;
      }
      if (!visit(run, run.count - skip)) return false;
      skip = 0;
    }
    return true;
  }

  void fold();
  bool repeats_at_front(std::size_t length) const;
  void add_group(std::size_t runs, std::int64_t repeats);

  std::vector<Group> groups_;
  std::vector<ChunkRun> tail_;  ///< not yet known to repeat; its last run may still grow
  std::int64_t size_ = 0;
};

}  // namespace pipefill
