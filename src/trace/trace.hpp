// The recorder of a rank. The step only copies events into memory taken beforehand; a background thread gathers them
// and has the process's HDF5 thread write one closed segment file after another, so that whatever happens to the rank,
// all up to the last segment is readable: <directory>/rank-00000-segment-000001.h5 and so on.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "base/log.hpp"
#include "base/units.hpp"
#include "storage/hdf5_thread.hpp"
#include "trace/description.hpp"
#include "trace/event.hpp"
#include "trace/ring.hpp"

namespace pipefill {

struct TraceOptions {
  std::filesystem::path directory;                    ///< <run>/trace; made when absent
  Nanoseconds segment{5'000'000'000};                 ///< a segment is closed when this old
  std::size_t ring_events = std::size_t{1} << 14;     ///< between the step and the background thread; a power of two
  std::size_t pending_events = std::size_t{1} << 20;  ///< gathered at most while the disk or a checkpoint is slow
  Nanoseconds gather_every{50'000'000};               ///< how often the background thread empties the ring
  /// Tests only: asked before every system call of the file driver; a non-zero errno makes that call fail.
  std::function<int(const char* call)> inject = {};
};

/// Counts since the start; any thread may ask.
struct TraceStatistics {
  std::int64_t recorded = 0;  ///< events handed to record()
  std::int64_t dropped = 0;   ///< events that no segment holds: the writer could not keep up, or the disk failed
  std::int64_t segments = 0;  ///< files written
  Nanoseconds writer_cpu{};   ///< CPU time of the background thread, and of the HDF5 thread for this trace
};

/// record(), finish_step() and name_job() belong to the rank's main thread. The first two neither allocate, lock nor
/// make a system call, and never fail: when the writer cannot keep up or the disk is full, events are dropped, counted
/// and reported once in the log, and the run goes on. Several traces (stages as threads of one process) may share one
/// HDF5 thread.
class Trace {
 public:
  /// A trace that records nothing (trace.enabled: false).
  Trace();
  /// Continues the segment numbers that `directory` already has for this rank. Throws FileError (73) when the directory
  /// cannot be made. `hdf5` must outlive the trace.
  Trace(TraceOptions options, RunDescription run, RankDescription rank, Hdf5Thread& hdf5, Log log);
  /// Without close(): writes what is left, with the end of the wall time unknown; trouble goes to the log.
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  bool enabled() const { return writer_ != nullptr; }

  /// An event that has ended, in order of its end. Fill work alone may come later than what it lies in and than events
  /// after that: a rank learns of it at the end of the step and records it then. Readers put all in order of start,
  /// as long as it is not more than StartOrder::kWindow events late (trace/segments.hpp).
  void record(const Event& event) noexcept {
    if (!enabled()) return;
    (events_.push(event) ? pushed_ : missed_).add_one();
  }
  void finish_step(const StepRecord& step) noexcept {
    if (enabled() && !steps_.push(step)) missed_steps_.add_one();
  }

  /// Says which job a number in events means, and again when more is known of it. May lock: not for inside a step.
  void name_job(const FillJobDescription& job);

  /// Ends the rank's record: `ended` is the end of its wall time (where its last event ends), `clock` the offset
  /// measured again. Writes the last segment and waits for it; call it once, before MPI_Finalize. When all ranks have
  /// closed, one of them calls merge_trace() (trace/merge.hpp) on the HDF5 thread.
  void close(Nanoseconds ended, std::optional<ClockOffset> clock);

  TraceStatistics statistics() const;

 private:
  class Writer;

  /// One thread counts, any thread reads.
  struct Counter {
    std::atomic<std::int64_t> value{0};
    void add_one() noexcept { value.store(value.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  };

  Ring<Event> events_;
  Ring<StepRecord> steps_;
  Counter pushed_, missed_, missed_steps_;
  std::unique_ptr<Writer> writer_;
};

}  // namespace pipefill
