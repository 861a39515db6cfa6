// The channel between a rank and its fill worker: one block of shared memory (a memfd) in which every word has one
// writer. Rank to worker: one command at a time, grants, stops. Worker to rank: its phase, a record per chunk, the
// job's state. Neither side ever blocks on the other: every wait has a time-out, and nothing is lost when one of them
// dies.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "comm/doorbells.hpp"
#include "fill/strategy.hpp"
#include "storage/atomic_file.hpp"
#include "worker/futex.hpp"

namespace pipefill {

enum class WorkerPhase : std::uint32_t {
  starting,   ///< not yet attached
  idle,       ///< no job, or the job has nothing left to run
  preparing,  ///< reads a job, restores its state, saves: may run at any time, is never gated by grants
  running,    ///< a grant is being used
  parked,     ///< has a job to run and waits for a grant
  gone        ///< said good-bye after quit
};

enum class WorkerCommand : std::uint32_t { none, assign, drop, save, quit };

/// Why the worker went back to waiting.
enum class ParkReason : std::uint32_t {
  none,
  stopped,    ///< told to
  deadline,   ///< the next chunk would not have ended before it
  memory,     ///< the next chunk needs more than was granted
  job_ended,  ///< finished or failed: see the report
  no_job,
  records_full,  ///< the rank has not drained the records for thousands of chunks
  command        ///< a command waits to be served
};

/// How an assigned job stands; `ready` and the `ended` ones are what a scheduler looks at.
enum class JobPhase : std::int32_t { none, preparing, ready, finished, failed, invalid, out_of_memory };

/// The worker's answer to `assign`, renewed whenever the phase changes. Trivially copyable: it lives in shared memory.
struct JobReport {
  std::uint64_t serial = 0;  ///< of the assignment; counted by the rank
  JobPhase phase = JobPhase::none;
  std::int32_t threads = 0;
  std::int64_t chunks = 0;
  std::int64_t done = 0;          ///< when the report was written; WorkerChannel::done() is newer
  std::int64_t memory_bytes = 0;  ///< most that any chunk needs beside the state
  double samples = 0;             ///< of the whole job
  std::array<char, 64> configuration = {};
  std::array<char, 512> message = {};
};

enum class ChunkOutcome : std::int32_t { finished, interrupted, failed };

/// One run of one chunk. Times are CLOCK_MONOTONIC of the host, the same as the rank's now().
struct ChunkRecord {
  std::uint64_t grant = 0;   ///< during which it began
  std::uint64_t serial = 0;  ///< of the assignment
  std::int64_t chunk = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t stopped_ns = 0;      ///< of that, in hard stops between bubbles
  std::int64_t cpu_ns = 0;          ///< of the worker and all it started
  std::int64_t program_cpu_ns = 0;  ///< the same, if the job is a program, which has no chunks to count; else 0
  std::int32_t cost_class = 0;
  ChunkOutcome outcome = ChunkOutcome::finished;
  double samples = 0;
};

/// What a rank lets the worker do until it says stop.
struct OpenGrant {
  std::uint64_t sequence = 0;  ///< 1, 2, ...; 0: never granted
  Nanoseconds deadline{0};
  Bytes memory{0};
};

/// What the worker expects of the chunk it would run next: time (judged by the rule of the strategy) and memory.
struct NextChunk {
  Nanoseconds budget{0};
  Bytes memory{0};
};

inline constexpr Nanoseconds kNoDeadline{INT64_MAX};
inline constexpr std::size_t kChannelRecords = 4096;

/// The shared words. Both sides see it through WorkerChannel only.
struct ChannelBlock;

class WorkerChannel {
 public:
  /// A new block; the rank's side. FileError 74 when there is no memory.
  static WorkerChannel create();
  /// The block behind an inherited descriptor; the worker's side. FileError 65 when it is not one of this version.
  static WorkerChannel attach(FileDescriptor memory);
  /// Another view of the same block, for a worker that is a thread.
  WorkerChannel share() const;
  WorkerChannel(WorkerChannel&& other) noexcept;
  WorkerChannel& operator=(WorkerChannel&&) = delete;
  ~WorkerChannel();
  int descriptor() const { return memory_.get(); }

  // ---- rank's side (one thread, unless said otherwise) ----

  /// Posts a command unless the one before is not answered yet (false). `directory` and `configuration` are for assign.
  bool post(WorkerCommand command, std::uint64_t serial = 0, const std::string& directory = "",
            const std::string& configuration = "");
  bool answered() const;  ///< the last posted command is done
  /// Opens a grant and wakes the worker. 0.3 us when it need not be woken, 1-3 us else.
  std::uint64_t grant(Nanoseconds deadline, Bytes memory);
  /// Whether the rank wants to know of every chunk that ends: `heard` none. Otherwise only from when its doorbell says
  /// something else than `heard`. A new grant means none. Where the worker has no doorbell it tells every chunk.
  void set_heard(std::optional<std::uint32_t> heard);
  /// How the worker judges and paces chunks; before the worker attaches.
  void set_rule(const ChunkRule& rule);
  /// The current grant is over. Idempotent.
  void stop();
  bool stopped() const;            ///< the current grant was stopped
  Nanoseconds stopped_at() const;  ///< when the newest stop was said; both sides
  bool parked() const;             ///< the worker does not use the current grant (any more)
  ParkReason park_reason() const;
  Nanoseconds parked_at() const;  ///< when the worker last parked
  WorkerPhase phase() const;
  std::int64_t done() const;        ///< finished chunks of the assigned job
  Nanoseconds chunk_began() const;  ///< start of the chunk that runs now; 0: none runs
  /// Of a parked worker; none: not known, it has to be woken to say.
  std::optional<NextChunk> next_chunk() const;

  /// The word that changes at every parking, answer and chunk end that the rank wants to know of; take it before
  /// looking, then sleep on it.
  std::uint32_t ticket() const;
  FutexWake wait_news(std::uint32_t ticket, Nanoseconds timeout) const;
  /// Wakes the rank's thread from another thread of the rank (the worker died). Any thread.
  void announce();

  /// Appends the records since the last call.
  void drain(std::vector<ChunkRecord>& records);
  JobReport report() const;
  std::uint64_t reports() const;  ///< how many reports there have been
  /// Time for which the worker was stopped hard is taken off its chunks.
  void add_stopped(Nanoseconds time);
  /// Process group of a program that the job runs; 0: none. It is stopped with the worker.
  int program_group() const;
  /// Forgets what a dead worker left half done, before the next one attaches. The rank's or its helper's thread.
  void reset_worker();

  // ---- worker's side (one thread, unless said otherwise) ----

  /// The word that others raise when they send the rank something; it outlives this. Null: there is none.
  void set_doorbell(const Doorbell* doorbell) { doorbell_ = doorbell; }
  void set_phase(WorkerPhase phase);  ///< wakes the rank, unless it is `running`, which the rank need not know
  /// The command that waits to be served, if any.
  struct Posted {
    WorkerCommand command;
    std::uint64_t serial;
    std::string directory, configuration;
  };
  std::optional<Posted> posted() const;
  void answer();
  ChunkRule rule() const;
  OpenGrant granted() const;  ///< the newest; whether it is stopped already, must_stop tells
  bool must_stop(std::uint64_t sequence) const;
  std::uint32_t wake_ticket() const;
  FutexWake wait_wake(std::uint32_t ticket, Nanoseconds timeout) const;
  bool room_for_record() const;
  void record(const ChunkRecord& record);
  void set_done(std::int64_t done);
  void set_chunk_began(Nanoseconds start);
  void set_next_chunk(const std::optional<NextChunk>& next);
  void park(std::uint64_t sequence, ParkReason reason, WorkerPhase phase);
  void write_report(const JobReport& report);
  Nanoseconds stopped_time() const;
  void set_program_group(int group);

 private:
  WorkerChannel(FileDescriptor memory, ChannelBlock* block) : memory_(std::move(memory)), block_(block) {}
  FileDescriptor memory_;
  ChannelBlock* block_;
  const Doorbell* doorbell_ = nullptr;
};

/// Copies text into a fixed array, cut and ended by a zero byte.
template <std::size_t N>
void copy_text(std::array<char, N>& to, std::string_view from) {
  const std::size_t length = from.size() < N ? from.size() : N - 1;
  to.fill('\0');
  for (std::size_t i = 0; i < length; ++i) to[i] = from[i];
}

}  // namespace pipefill
