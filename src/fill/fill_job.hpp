// A fill job as a value: what it is made of, what its chunks cost in each of its configurations, how far it has come.
// Planning and scheduling read these; who runs the chunks is somebody else's affair.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fill/chunk_sequence.hpp"
#include "fill/recent_times.hpp"

namespace pipefill {

/// What a core (or device) reaches on work like this: measured once, by whoever predicts.
struct MachineRate {
  double flops_per_second = 1e10;
  double bytes_per_second = 1e10;
};

/// The slower of computing and moving: the roofline of Williams, Waterman, Patterson (CACM 52-4, 2009). Between 1 us
/// and an hour; 1 ms for a chunk that says nothing (no flops, no bytes): it is measured as soon as it has run.
Nanoseconds predict_time(double flops, double bytes, const MachineRate& rate);

enum class CostSource { predicted, measured };

/// Time of one chunk of a cost class: predicted until it has run, then the median of its last runs.
class ChunkTime {
 public:
  ChunkTime() = default;
  explicit ChunkTime(Nanoseconds predicted) : predicted_(predicted) {}

  void measured(Nanoseconds time) { runs_.add(time); }
  Nanoseconds time() const { return runs_.empty() ? predicted_ : runs_.median(); }
  CostSource source() const { return runs_.empty() ? CostSource::predicted : CostSource::measured; }

 private:
  Nanoseconds predicted_{};
  RecentTimes runs_;
};

/// One chunk with its price.
struct FillChunk {
  int cost_class = 0;
  Nanoseconds time{};
  Bytes memory{};
  double samples = 0;
};

/// One way to run the whole job: a batch size, say, or with recomputation.
struct FillConfiguration {
  std::string name;              ///< "batch=4"
  ChunkSequence chunks;          ///< of the whole job
  std::vector<ChunkTime> times;  ///< by cost class
  Bytes resident{};              ///< the job's state: stays in memory from bubble to bubble

  FillChunk price(const ChunkRun& run) const {
    return {run.cost_class, times[static_cast<std::size_t>(run.cost_class)].time(), run.memory, run.samples};
  }
  /// Chunks as a kind describes them (pipefill_fill_chunk), behind the last one. A cost class that nobody has measured
  /// is predicted by the slowest of its chunks. Error (65) for values no plan can be made with.
  void append(const ChunkRun& run, double flops, double bytes, const MachineRate& rate);
  /// Sum of the chunks' times from `done` on, with the device for itself.
  Nanoseconds remaining_time(std::int64_t done) const;
};

/// Finished chunks of a job. Only grows: an older report than what is known changes nothing.
class FillProgress {
 public:
  explicit FillProgress(std::int64_t done = 0) : done_(done) {}
  void reached(std::int64_t done) { done_ = std::max(done_, done); }
  std::int64_t done() const { return done_; }

 private:
  std::int64_t done_;
};

struct FillJobInfo {
  std::int64_t id = 0;  ///< unique in the queue
  std::string name;
  std::string kind;  ///< "score"
  std::string owner;
  Nanoseconds arrival{};                ///< when it was submitted; the scheduler's clock
  std::optional<Nanoseconds> deadline;  ///< when it should be finished; the same clock
  double priority = 0;                  ///< more is sooner; what one is worth says PolicySettings
  std::int64_t most_shards = 1;  ///< into how many parts the job may be split before it has started; 1: not at all
  std::vector<FillConfiguration> configurations;
  std::optional<int> pinned;  ///< the configuration it has started in, which never changes again
  FillProgress progress;      ///< in the pinned configuration

  /// Whether the job may run in this configuration.
  bool allows(int configuration) const { return !pinned || *pinned == configuration; }
};

}  // namespace pipefill
