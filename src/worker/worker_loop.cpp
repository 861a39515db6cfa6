#include "worker/worker_loop.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "fill_jobs/command.hpp"
#include "fill_jobs/process_tree.hpp"
#include "worker/chunk_times.hpp"
#include "worker/job_group.hpp"
#include "worker/job_run.hpp"
#include "worker/limits.hpp"

namespace pipefill {
namespace {

constexpr Nanoseconds kLookForParent = std::chrono::seconds(1);
/// A chunk class that nobody has measured is tried, though it is not expected to fit, after so many grants in vain.
constexpr int kGrantsInVain = 8;
/// The same of a class that was measured (perhaps while the machine was busy), if nothing at all ran in these grants.
constexpr int kMeasuredInVain = 4;

Nanoseconds clock_time(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return Nanoseconds{time.tv_sec * 1'000'000'000LL + time.tv_nsec};
}

Nanoseconds time_of(const timeval& time) { return Nanoseconds{time.tv_sec * 1'000'000'000LL + time.tv_usec * 1000}; }

/// Where stdout and stderr go while a job is loaded.
class OutputFiles {
 public:
  /// What earlier tries wrote is cut to a quarter of the limit in each file, or the next try would have no room.
  OutputFiles(const JobDirectory& directory, Bytes limit) : saved_{::dup(1), ::dup(2)} {
    for (const int target : {1, 2}) {
      ::fcntl(saved_[target - 1], F_SETFD, FD_CLOEXEC);
      const std::string path = directory.file(target == 1 ? "stdout" : "stderr");
      const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666));
      if (file.get() < 0) continue;
      struct stat info {};
      if (limit.count > 0 && ::fstat(file.get(), &info) == 0 && info.st_size > limit.count / 4)
        (void)!::ftruncate(file.get(), limit.count / 4);
      ::dup2(file.get(), target);
    }
  }
  ~OutputFiles() {
    std::fflush(nullptr);
    for (const int target : {1, 2}) {
      ::dup2(saved_[target - 1], target);
      ::close(saved_[target - 1]);
    }
  }
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

 private:
  int saved_[2];
};

class WorkerLoop {
 public:
  WorkerLoop(WorkerChannel& channel, const WorkerLoopOptions& options) : channel_(channel), options_(options) {}
  void run();

 private:
  /// One job and all that surrounds it; taken apart in reverse order.
  struct Loaded {
    std::optional<OutputFiles> output;
    std::optional<JobGroup> group;
    std::optional<ProcessLimits> limits;
    std::optional<JobRun> run;
    std::optional<LimitWatch> watch;
    ChunkTimes times;
    int in_vain = 0;       ///< grants that ended before a chunk that was not thought to fit
    int run_in_grant = 0;  ///< chunks
  };

  /// False: quit.
  bool serve(const WorkerChannel::Posted& posted);
  void assign(const WorkerChannel::Posted& posted);
  void unload(JobStatus status);
  void use(const OpenGrant& grant);
  ParkReason run_chunks(const OpenGrant& grant);
  /// Why the next chunk may not run now; none: it may.
  ParkReason hindrance(const OpenGrant& grant);
  void run_chunk(const OpenGrant& grant);
  void finish();
  /// Runs `body`; what it throws becomes the job's end. False then.
  template <class Body>
  bool guarded(Body body);
  void end_badly(JobPhase phase, const std::string& message);
  void report(JobPhase phase, const std::string& message);
  Nanoseconds cpu_time() const;
  bool has_work() const { return loaded_ && loaded_->run && loaded_->run->done() < loaded_->run->chunks(); }

  WorkerChannel& channel_;
  const WorkerLoopOptions& options_;
  std::unique_ptr<Loaded> loaded_;
  const ChunkRule rule_{channel_.rule()};
  std::uint64_t serial_ = 0;
  std::uint64_t used_ = 0;  ///< the newest grant that is over for this worker
  std::mutex report_mutex_;
  JobReport report_;
};

void WorkerLoop::run() {
  used_ = channel_.granted().sequence;  // of an earlier worker's
  channel_.park(used_, ParkReason::no_job, WorkerPhase::idle);
  for (;;) {
    const std::uint32_t ticket = channel_.wake_ticket();
    if (const auto posted = channel_.posted()) {
      if (!serve(*posted)) return;
      continue;
    }
    if (const OpenGrant grant = channel_.granted(); grant.sequence > used_) {
      use(grant);
      continue;
    }
    if (channel_.wait_wake(ticket, kLookForParent) == FutexWake::timed_out && options_.orphaned()) return;
  }
}

bool WorkerLoop::serve(const WorkerChannel::Posted& posted) {
  channel_.set_phase(WorkerPhase::preparing);
  switch (posted.command) {
    case WorkerCommand::assign:
      unload(JobStatus::submitted);
      assign(posted);
      break;
    case WorkerCommand::drop:
      unload(JobStatus::submitted);
      report(JobPhase::none, "");
      break;
    case WorkerCommand::save:
      if (has_work()) guarded([this] { loaded_->run->save(); });
      break;
    case WorkerCommand::quit:
      if (has_work()) guarded([this] { loaded_->run->save(); });
      unload(JobStatus::submitted);
      break;
    case WorkerCommand::none:
      break;
  }
  const bool quits = posted.command == WorkerCommand::quit;
  channel_.set_phase(quits ? WorkerPhase::gone : has_work() ? WorkerPhase::parked : WorkerPhase::idle);
  channel_.answer();
  return !quits;
}

void WorkerLoop::assign(const WorkerChannel::Posted& posted) {
  serial_ = posted.serial;
  report_ = JobReport{};
  report(JobPhase::preparing, "");
  guarded([&] {
    loaded_ = std::make_unique<Loaded>();
    const JobDirectory directory = JobDirectory::open(posted.directory);
    const FillJobSpec spec = directory.read_spec({});
    const bool process = options_.is == WorkerIs::process;
    if (!process && spec.kind == "command")
      throw DeckError("a command runs in a process of its own only; set fill.isolation: process");
    if (process) {
      loaded_->output.emplace(directory, spec.limits.output);
      loaded_->group.emplace(spec.limits);
      loaded_->limits.emplace(spec.limits, Bytes{0});
      FillLimits watched = spec.limits;
      // The kernel counts better: a child that has just been forked shares its memory with its parent.
      if (loaded_->group->counts_memory()) watched.memory = Bytes{0};
      loaded_->watch.emplace(directory, watched, [this](const std::string& over) {
        report(JobPhase::failed, over);
        // Its processes are left to the rank to kill: while this one lives, the end of a program may look like a good
        // one.
        ::_exit(1);
      });
    }
    loaded_->run.emplace(JobRun::load(posted.directory, posted.configuration, options_.threads, options_.find_kind));
    const JobRun& run = *loaded_->run;
    report_.threads = run.state().threads;
    report_.chunks = run.chunks();
    report_.memory_bytes = run.configuration().memory_bytes;
    report_.samples = static_cast<double>(run.configuration().samples);
    copy_text(report_.configuration, run.state().configuration);
    channel_.set_done(run.done());
    if (has_work())
      report(JobPhase::ready, "");
    else
      finish();  // killed between its last chunk and its end
  });
}

void WorkerLoop::unload(JobStatus status) {
  if (loaded_ && loaded_->run) {
    try {
      loaded_->run->write_state(status);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "pipefill fill-worker: %s\n", e.what());  // its progress is in state.bin all the same
    }
  }
  channel_.set_program_group(0);
  channel_.set_next_chunk(std::nullopt);
  if (loaded_) loaded_->watch.reset(), loaded_->run.reset();
  if (options_.is == WorkerIs::process)
    kill_descendants(::getpid());  // a job's processes end with it, before its group
  loaded_.reset();
}

void WorkerLoop::use(const OpenGrant& grant) {
  ParkReason reason = ParkReason::no_job;
  if (has_work()) {
    channel_.set_phase(WorkerPhase::running);
    loaded_->run_in_grant = 0;
    reason = run_chunks(grant);
  }
  used_ = grant.sequence;
  const bool ends = loaded_ && !has_work();  // whatever parked it: a stop may come right behind the last chunk
  channel_.park(used_, reason, ends ? WorkerPhase::preparing : has_work() ? WorkerPhase::parked : WorkerPhase::idle);
  if (!ends) return;
  guarded([this] { finish(); });
  channel_.set_phase(WorkerPhase::idle);
}

ParkReason WorkerLoop::run_chunks(const OpenGrant& grant) {
  for (;;) {
    ParkReason reason = ParkReason::none;
    const bool good = guarded([&] {
      reason = hindrance(grant);
      if (reason == ParkReason::none) {
        run_chunk(grant);
        if (rule_.pause_after > Nanoseconds{0}) std::this_thread::sleep_for(rule_.pause_after);
      }
    });
    if (!good) return ParkReason::job_ended;
    if (reason != ParkReason::none) return reason;
  }
}

ParkReason WorkerLoop::hindrance(const OpenGrant& grant) {
  if (channel_.must_stop(grant.sequence)) return ParkReason::stopped;
  if (!channel_.answered()) return ParkReason::command;
  if (!has_work()) return ParkReason::job_ended;
  if (!channel_.room_for_record()) return ParkReason::records_full;
  const pipefill_fill_chunk& chunk = loaded_->run->next();
  const Nanoseconds time = loaded_->times.predict(chunk);
  const bool measured = loaded_->times.measured(chunk);
  if (measured) channel_.set_next_chunk(NextChunk{rule_.budget(time), Bytes{chunk.memory_bytes}});
  if (Bytes{chunk.memory_bytes} > grant.memory) return ParkReason::memory;
  if (grant.deadline == kNoDeadline || rule_.fits(time, now(), grant.deadline)) return ParkReason::none;
  if (measured && loaded_->run_in_grant > 0) return ParkReason::deadline;
  if (++loaded_->in_vain < (measured ? kMeasuredInVain : kGrantsInVain)) return ParkReason::deadline;
  loaded_->times.forget(chunk);
  loaded_->in_vain = 0;
  return ParkReason::none;
}

void WorkerLoop::run_chunk(const OpenGrant& grant) {
  JobRun& run = *loaded_->run;
  const pipefill_fill_chunk chunk = run.next();
  struct Context {
    WorkerChannel& channel;
    const JobRun& run;
    std::uint64_t sequence;
  } context{channel_, run, grant.sequence};
  const pipefill_fill_grant told{.struct_bytes = sizeof(pipefill_fill_grant),
                                 .deadline_ns = grant.deadline.count(),
                                 .context = &context,
                                 .should_stop = [](void* raw) -> int32_t {
                                   const Context& c = *static_cast<Context*>(raw);
                                   if (c.run.is_command()) c.channel.set_program_group(program_group(c.run.job()));
                                   return c.channel.must_stop(c.sequence) || !c.channel.answered() ? 1 : 0;
                                 }};
  ChunkRecord record{.grant = grant.sequence, .serial = serial_, .chunk = run.done(), .cost_class = chunk.cost_class};
  const Nanoseconds cpu = cpu_time(), stopped = channel_.stopped_time(), start = now();
  // A program has no chunk whose end could be missed.
  if (!run.is_command()) channel_.set_chunk_began(start);
  channel_.set_next_chunk(std::nullopt);  // the one behind it is looked at when this one is over
  std::int32_t result = PIPEFILL_FILL_FAILED;
  const auto close = [&](ChunkOutcome outcome) {
    Nanoseconds end = now();
    // A stopped program was stopped by the rank, at once; only the telling comes late.
    if (outcome == ChunkOutcome::interrupted && channel_.must_stop(grant.sequence))
      end = std::clamp(channel_.stopped_at(), start, end);
    channel_.set_chunk_began(Nanoseconds{0});
    record.outcome = outcome;
    record.start_ns = start.count();
    record.end_ns = end.count();
    record.stopped_ns = (channel_.stopped_time() - stopped).count();
    record.cpu_ns = (cpu_time() - cpu).count();
    if (run.is_command()) record.program_cpu_ns = record.cpu_ns;
    if (outcome == ChunkOutcome::finished) record.samples = chunk.samples;
    return end - start - Nanoseconds{record.stopped_ns};
  };
  try {
    result = run.run(told);
  } catch (...) {
    close(ChunkOutcome::failed);
    channel_.record(record);
    throw;
  }
  const bool finished = result == PIPEFILL_FILL_OK;
  const Nanoseconds took = close(finished ? ChunkOutcome::finished : ChunkOutcome::interrupted);
  if (finished) {
    run.count_done(Nanoseconds{record.cpu_ns}, took);
    loaded_->times.add(chunk, took);
    ++loaded_->run_in_grant;
    if (rule_.fits(took, start, grant.deadline)) loaded_->in_vain = 0;
    channel_.set_done(run.done());
  } else {
    run.count_times(Nanoseconds{record.cpu_ns}, took);
  }
  channel_.record(record);
}

void WorkerLoop::finish() {
  loaded_->run->save();
  unload(JobStatus::finished);
  report(JobPhase::finished, "");
}

template <class Body>
bool WorkerLoop::guarded(Body body) {
  try {
    body();
    return true;
  } catch (const KindError& e) {
    const JobPhase phase = e.result == PIPEFILL_FILL_INVALID         ? JobPhase::invalid
                           : e.result == PIPEFILL_FILL_OUT_OF_MEMORY ? JobPhase::out_of_memory
                                                                     : JobPhase::failed;
    end_badly(phase, e.what());
  } catch (const Error& e) {
    // What may be otherwise next time: a lock, a full disk.
    const bool passing = e.code() == ExitCode::input_output || e.code() == ExitCode::cannot_create;
    end_badly(passing ? JobPhase::failed : JobPhase::invalid, e.what());
  } catch (const std::bad_alloc&) {
    end_badly(JobPhase::out_of_memory, "out of memory (limits.memory)");
  } catch (const std::exception& e) {
    end_badly(JobPhase::failed, e.what());
  }
  return false;
}

void WorkerLoop::end_badly(JobPhase phase, const std::string& message) {
  // Of several processes the kernel may have ended another one than this.
  const bool out_of_memory = loaded_ && loaded_->group && loaded_->group->killed_for_memory() > 0;
  unload(JobStatus::submitted);
  report(phase,
         out_of_memory ? message + " (limits.memory: the kernel ended a process, its cgroup had none left)" : message);
}

void WorkerLoop::report(JobPhase phase, const std::string& message) {
  const std::lock_guard lock(report_mutex_);
  report_.serial = serial_;
  report_.phase = phase;
  report_.done = channel_.done();
  copy_text(report_.message, message);
  channel_.write_report(report_);
}

Nanoseconds WorkerLoop::cpu_time() const {
  if (options_.is == WorkerIs::thread) return clock_time(CLOCK_THREAD_CPUTIME_ID);
  Nanoseconds sum = clock_time(CLOCK_PROCESS_CPUTIME_ID);
  if (!loaded_->run->is_command()) return sum;
  rusage ended{};
  ::getrusage(RUSAGE_CHILDREN, &ended);
  sum += time_of(ended.ru_utime) + time_of(ended.ru_stime);
  for (const ProcessFacts& child : descendants(::getpid())) sum += child.cpu;
  return sum;
}

}  // namespace

void run_worker_loop(WorkerChannel& channel, const WorkerLoopOptions& options) { WorkerLoop(channel, options).run(); }

}  // namespace pipefill
