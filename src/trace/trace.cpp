// The background side of a rank's recorder: gathers from the rings, and hands one segment at a time to the HDF5 thread.
#include "trace/trace.hpp"

#include <fmt/format.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "storage/atomic_file.hpp"
#include "trace/segment_name.hpp"
#include "trace/trace_file.hpp"

namespace pipefill {
namespace {

constexpr std::size_t kRingSteps = 1024;

Nanoseconds thread_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
}

RankRow make_rank_row(const RunDescription& run, const RankDescription& rank) {
  RankRow row;
  row.attempt = run.attempt;
  row.rank = rank.rank;
  row.stage = rank.stage;
  row.replica = rank.replica;
  row.stages = run.stages;
  row.replicas = run.replicas;
  row.microbatches = run.microbatches;
  assign(row.schedule, run.schedule);
  assign(row.host, rank.host);
  row.pid = rank.pid;
  assign(row.device, rank.device);
  row.threads = rank.threads;
  assign(row.cores, rank.cores);
  row.start_ns = rank.started.count();
  row.start_wall_s = rank.started_wall;
  row.clock_start_at_ns = rank.clock.measured_at.count();
  row.clock_start_offset_ns = rank.clock.offset.count();
  row.clock_start_uncertainty_ns = rank.clock.uncertainty.count();
  return row;
}

EventRow make_row(const Event& event, const RankRow& rank) {
  return {.attempt = static_cast<std::int16_t>(rank.attempt),
          .kind = static_cast<std::int16_t>(event.kind),
          .rank = rank.rank,
          .step = event.step,
          .slot = event.slot,
          .job = event.job,
          .fill_chunk = event.fill_chunk,
          .stage = static_cast<std::int16_t>(rank.stage),
          .model_chunk = event.model_chunk,
          .microbatch = event.microbatch,
          .cost_class = event.cost_class,
          .start_ns = event.start.count(),
          .end_ns = event.end.count(),
          .transfer_ns = event.transfer.count(),
          .granted_ns = event.granted.count(),
          .bytes = event.bytes};
}

StepRow make_row(const StepRecord& step, const RankRow& rank) {
  return {.attempt = rank.attempt,
          .rank = rank.rank,
          .step = step.step,
          .start_ns = step.start.count(),
          .end_ns = step.end.count(),
          .tokens = step.tokens,
          .loss = step.loss,
          .learning_rate = step.learning_rate,
          .gradient_norm = step.gradient_norm,
          .filled = step.filled,
          .pair = step.pair};
}

FillJobRow make_row(const FillJobDescription& job, const RankRow& rank) {
  FillJobRow row{.attempt = rank.attempt, .job = job.job, .chunks = job.chunks, .samples = job.samples};
  assign(row.name, job.name);
  assign(row.kind, job.kind);
  assign(row.configuration, job.configuration);
  return row;
}

/// What the HDF5 thread is to write as one file.
struct Segment {
  std::filesystem::path path;
  RankRow rank;
  std::vector<EventRow> events;
  std::vector<StepRow> steps;
  std::vector<FillJobRow> jobs;
};

struct Written {
  std::string trouble{};  ///< empty: the file is in place
  std::int64_t events = 0;
  Nanoseconds cpu{};
  std::vector<FillJobRow> lost_jobs{};  ///< names that the next segment is to hold, because this one is not there
  std::vector<EventRow> memory{};       ///< the segment's, empty, for the next but one: its pages have been touched
};

Written write(Segment& segment, const RunDescription& run, const std::function<int(const char*)>& inject) {
  const Nanoseconds start = thread_cpu_time();
  Written result{.events = static_cast<std::int64_t>(segment.events.size())};
  try {
    TraceFileWriter file(segment.path, run, {.content = TraceContent::segment, .inject = inject});
    file.append(std::span<const EventRow>(segment.events));
    file.append(std::span<const StepRow>(segment.steps));
    file.append(std::span<const RankRow>(&segment.rank, 1));
    file.append(std::span<const FillJobRow>(segment.jobs));
    file.finish();
  } catch (const std::exception& error) {
    result.trouble = error.what();
    result.lost_jobs = std::move(segment.jobs);
  }
  result.memory = std::move(segment.events);
  result.memory.clear();
  result.cpu = thread_cpu_time() - start;
  return result;
}

}  // namespace

class Trace::Writer {
 public:
  Writer(Trace& trace, TraceOptions options, RunDescription run, const RankDescription& rank, Hdf5Thread& hdf5, Log log)
      : trace_(trace), options_(std::move(options)), run_(std::move(run)), hdf5_(hdf5), log_(std::move(log)) {
    row_ = make_rank_row(run_, rank);
    std::error_code error;
    std::filesystem::create_directories(options_.directory, error);
    if (error) {
      throw FileError(ExitCode::cannot_create, options_.directory,
                      system_text("cannot make the trace's directory", error.value()));
    }
    for (const SegmentName& name : list_segments(options_.directory))
      if (name.rank == row_.rank) number_ = name.number;
    opened_ = now();
    thread_ = std::thread([this] { gather_in_background(); });
  }

  ~Writer() { finish(); }

  void close(Nanoseconds ended, std::optional<ClockOffset> clock) {
    stop();
    row_.end_ns = ended.count();
    if (clock) {
      row_.clock_end_at_ns = clock->measured_at.count();
      row_.clock_end_offset_ns = clock->offset.count();
      row_.clock_end_uncertainty_ns = clock->uncertainty.count();
    }
    finish();
  }

  void name_job(const FillJobDescription& job) {
    const std::lock_guard lock(names_mutex_);
    names_.push_back(make_row(job, row_));
  }

  std::int64_t lost() const { return lost_.load(std::memory_order_relaxed); }
  std::int64_t segments() const { return segments_.load(std::memory_order_relaxed); }
  Nanoseconds cpu() const { return Nanoseconds(cpu_.load(std::memory_order_relaxed)); }

 private:
  void gather_in_background() {
    const Nanoseconds start = thread_cpu_time();
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, options_.gather_every, [this] { return stopping_; })) {
      gather();
      const bool old = now() - opened_ >= options_.segment;
      const bool large = events_.size() >= options_.pending_events / 2;
      const bool something = !events_.empty() || !steps_.empty() || !jobs_.empty();
      if (!busy() && (old || large) && something) hand_over();
      cpu_.store((thread_cpu_time() - start + written_cpu_).count(), std::memory_order_relaxed);
    }
    gatherer_cpu_ = thread_cpu_time() - start;
  }

  void gather() {
    const std::size_t space = options_.pending_events - std::min(options_.pending_events, events_.size());
    trace_.events_.pop(space, [this](const Event& event) {
      events_.push_back(make_row(event, row_));
      row_.last_event_ns = std::max(row_.last_event_ns, events_.back().end_ns);
    });
    trace_.steps_.pop(options_.pending_events - std::min(options_.pending_events, steps_.size()),
                      [this](const StepRecord& step) { steps_.push_back(make_row(step, row_)); });
    {
      const std::lock_guard lock(names_mutex_);
      jobs_.insert(jobs_.end(), names_.begin(), names_.end());
      names_.clear();
    }
    const std::int64_t missed = trace_.missed_.value.load(std::memory_order_relaxed) +
                                trace_.missed_steps_.value.load(std::memory_order_relaxed);
    if (missed > 0 && !std::exchange(said_missed_, true)) {
      log_->warn(
          "trace: events are being dropped, because they come faster than they can be written; the run goes on, the "
          "trace says how many it lacks");
    }
  }

  /// Whether a segment is still being written; takes note of one that is done.
  bool busy() {
    if (!writing_.valid()) return false;
    if (writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return true;
    take_note();
    return false;
  }

  void take_note() {
    Written written = writing_.get();
    written_cpu_ += written.cpu;
    spare_ = std::move(written.memory);
    if (written.trouble.empty()) {
      segments_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    --number_;  // the next segment takes this number: a gap would mean a lost file
    lost_.fetch_add(written.events, std::memory_order_relaxed);
    jobs_.insert(jobs_.begin(), written.lost_jobs.begin(), written.lost_jobs.end());
    if (!std::exchange(said_trouble_, true)) {
      log_->warn(
          "trace: {} events are lost, and later ones may be; the run goes on, the trace says how many it lacks: {}",
          written.events, written.trouble);
    }
  }

  void hand_over() {
    row_.events_dropped = lost() + trace_.missed_.value.load(std::memory_order_relaxed);
    auto segment = std::make_shared<Segment>();
    segment->path = options_.directory / segment_file({row_.rank, ++number_});
    segment->rank = row_;
    segment->events = std::exchange(events_, std::exchange(spare_, {}));
    segment->steps = std::exchange(steps_, {});
    segment->jobs = std::exchange(jobs_, {});
    writing_ = hdf5_.post([segment, run = run_, inject = options_.inject] { return write(*segment, run, inject); });
    opened_ = now();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  /// The last segment, once: what is left, and how the rank ended.
  void finish() {
    if (std::exchange(finished_, true)) return;
    stop();
    if (writing_.valid()) take_note();
    do {
      gather();
      hand_over();
      take_note();
      gather();  // a ring may hold more than one segment takes
    } while (!events_.empty() || !steps_.empty());
    cpu_.store((gatherer_cpu_ + written_cpu_).count(), std::memory_order_relaxed);
  }

  Trace& trace_;
  TraceOptions options_;
  RunDescription run_;
  Hdf5Thread& hdf5_;
  Log log_;
  RankRow row_;
  int number_ = 0;        ///< of the newest segment
  Nanoseconds opened_{};  ///< when the segment being gathered began
  std::vector<EventRow> events_, spare_;
  std::vector<StepRow> steps_;
  std::vector<FillJobRow> jobs_;
  std::future<Written> writing_;
  Nanoseconds written_cpu_{}, gatherer_cpu_{};
  bool said_missed_ = false, said_trouble_ = false, finished_ = false;
  std::atomic<std::int64_t> lost_{0}, segments_{0}, cpu_{0};

  std::mutex names_mutex_;
  std::vector<FillJobRow> names_;  ///< from the main thread, not gathered yet

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

Trace::Trace() : events_(1), steps_(1) {}

Trace::Trace(TraceOptions options, RunDescription run, RankDescription rank, Hdf5Thread& hdf5, Log log)
    : events_(options.ring_events), steps_(kRingSteps) {
  writer_ = std::make_unique<Writer>(*this, std::move(options), std::move(run), rank, hdf5, std::move(log));
}

Trace::~Trace() = default;

void Trace::close(Nanoseconds ended, std::optional<ClockOffset> clock) {
  if (enabled()) writer_->close(ended, std::move(clock));
}

void Trace::name_job(const FillJobDescription& job) {
  if (enabled()) writer_->name_job(job);
}

TraceStatistics Trace::statistics() const {
  if (!enabled()) return {};
  const std::int64_t pushed = pushed_.value.load(std::memory_order_relaxed);
  const std::int64_t missed = missed_.value.load(std::memory_order_relaxed);
  return {.recorded = pushed + missed,
          .dropped = missed + writer_->lost(),
          .segments = writer_->segments(),
          .writer_cpu = writer_->cpu()};
}

}  // namespace pipefill
