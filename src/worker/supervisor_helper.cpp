// The helper thread's half of Supervisor: all that may take long. It spawns, buries and respawns workers, hands them
// their jobs, writes down failures, finds hangs and the processes that a job has started.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "worker/job_directory.hpp"
#include "worker/job_state.hpp"
#include "worker/supervisor_impl.hpp"
#include "worker/worker_loop.hpp"
#include "worker/worker_main.hpp"

namespace pipefill {
namespace {

constexpr Nanoseconds kFarewell = std::chrono::seconds(2);   ///< for saving at the end
constexpr Nanoseconds kUsualLook = std::chrono::seconds(1);  ///< of the helper, when nothing wakes it
constexpr Nanoseconds kAfterwards = std::chrono::milliseconds(1);
constexpr Nanoseconds kLookAtPrograms = std::chrono::milliseconds(100);  ///< while a job runs other processes
constexpr Nanoseconds kRespawn = std::chrono::milliseconds(100);  ///< after a worker that never got ready; doubled
constexpr int kMostRespawns = 6;                                  ///< of workers that never got ready, in a row

/// A damaged state.bin must not keep a failure from being written down.
std::int64_t done_of(const JobDirectory& directory, std::int64_t otherwise) {
  try {
    return read_done(directory.file("state.bin"));
  } catch (const Error&) {
    return otherwise;
  }
}

bool ended(AssignedState state) {
  return state == AssignedState::finished || state == AssignedState::failed || state == AssignedState::quarantined ||
         state == AssignedState::none;
}

}  // namespace

void Supervisor::Impl::help() {
  ::pthread_setname_np(::pthread_self(), "fill-helper");
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (ends_) break;
    }
    try {
      look();
    } catch (const std::exception& e) {
      log_->error("fill worker: {}", e.what());
    }
    sleep_until_news();
  }
  say_farewell();
}

void Supervisor::Impl::sleep_until_news() {
  Nanoseconds timeout = kUsualLook;
  {
    const std::lock_guard lock(mutex_);
    const Nanoseconds time = now();
    if (job_.state == AssignedState::waiting) timeout = std::min(timeout, job_.next_try - time);
    if (preparing_since_ != Nanoseconds{0})
      timeout = std::min(timeout, preparing_since_ + settings_.prepare - time + kAfterwards);
    if (wants_worker_ && !has_worker() && unready_deaths_ < kMostRespawns)
      timeout = std::min(timeout, next_spawn_ - time);
    // A command not answered yet may be followed by another one.
    if (wish_ != Wish::none || wants_save_ || channel.program_group() != 0 || targets_.count > 0)
      timeout = std::min(timeout, kLookAtPrograms);
  }
  pollfd news[2] = {{bell_.get(), POLLIN, 0}, {process_ ? process_->descriptor() : -1, POLLIN, 0}};
  ::poll(news, 2, static_cast<int>(std::max<std::int64_t>(0, (timeout.count() + 999'999) / 1'000'000)));
  std::uint64_t rings = 0;
  (void)!::read(bell_.get(), &rings, sizeof rings);
}

void Supervisor::Impl::look() {
  if (process_) {
    pollfd end{process_->descriptor(), POLLIN, 0};
    if (::poll(&end, 1, 0) > 0) bury();
  }
  bool wanted = false;
  {
    const std::lock_guard lock(mutex_);
    wanted = wants_worker_;
  }
  if (wanted && !has_worker() && unready_deaths_ < kMostRespawns && now() >= next_spawn_) spawn();
  if (!has_worker()) return;
  if (channel.phase() != WorkerPhase::starting) was_ready_ = true, unready_deaths_ = 0;
  read_report();
  post_wishes();
  look_at_programs();
  kill_if_hanging();
  kill_if_unready();
  kill_if_overrunning();
}

void Supervisor::Impl::spawn() {
  channel.reset_worker();
  preparing_since_ = Nanoseconds{0};
  was_ready_ = false;
  kill_reason_.clear();
  if (ever_spawned_) ++restarts;
  ever_spawned_ = true;
  if (settings_.isolation == FillIsolation::in_process) {
    thread_ = std::thread([shared = channel.share(), this]() mutable {
      ::pthread_setname_np(::pthread_self(), "fill-worker");
      if (settings_.priority == WorkerPriority::idle) become_idle_class();
      WorkerLoopOptions options;
      options.is = WorkerIs::thread;
      options.threads = settings_.threads;
      options.find_kind = settings_.find_kind;
      shared.set_doorbell(settings_.doorbell.word);
      run_worker_loop(shared, options);
    });
    alive_ = true;
    return;
  }
  next_spawn_ = now() + kRespawn * (1 << unready_deaths_);
  ++unready_deaths_;  // until it proves to be alive
  process_ = WorkerProcess::spawn(settings_.program, settings_.arguments, {channel.descriptor(), settings_.doorbell},
                                  settings_.threads, settings_.priority);
  pid = process_->pid();
  alive_ = true;
}

void Supervisor::Impl::read_report() {
  if (channel.reports() == reports_at_post_) return;
  const JobReport report = channel.report();
  const std::unique_lock lock(mutex_);
  if (report.serial != job_.serial || job_.state == AssignedState::waiting || ended(job_.state)) return;
  job_.configuration = report.configuration.data();
  job_.chunks = report.chunks;
  job_.done = channel.done();
  job_.samples = report.samples;
  if (report.phase == JobPhase::ready && job_.state != AssignedState::ready) {
    job_.state = AssignedState::ready;
    done_at_try_ = report.done;
  }
  if (report.phase == JobPhase::finished) job_.state = AssignedState::finished;
}

void Supervisor::Impl::post_wishes() {
  const JobReport report = channel.report();
  const bool bad =
      report.phase == JobPhase::failed || report.phase == JobPhase::invalid || report.phase == JobPhase::out_of_memory;
  bool failed = false;
  {
    const std::lock_guard lock(mutex_);
    failed = bad && channel.reports() != reports_at_post_ && report.serial == job_.serial && wish_ == Wish::none &&
             job_.state != AssignedState::waiting && !ended(job_.state);
  }
  if (failed) fail_job(report.message.data(), report.phase == JobPhase::invalid);

  const std::lock_guard lock(mutex_);
  if (job_.state == AssignedState::waiting && now() >= job_.next_try) {
    job_.state = AssignedState::starting;
    wish_ = Wish::assign;
  }
  if (!channel.answered()) return;
  if (wish_ == Wish::assign) {
    overruns_.store(0, std::memory_order_relaxed);
    reports_at_post_ = channel.reports();
    if (channel.post(WorkerCommand::assign, job_.serial, job_.directory, job_.configuration)) wish_ = Wish::none;
  } else if (wish_ == Wish::drop) {
    if (channel.post(WorkerCommand::drop)) wish_ = Wish::none;
  } else if (wants_save_) {
    if (channel.post(WorkerCommand::save)) wants_save_ = false;
  }
}

void Supervisor::Impl::bury() {
  const bool reported = channel.reports() != reports_at_post_;
  const JobReport report = channel.report();
  alive_ = false;
  pid = 0;  // before it is reaped: from then on the number may be another's
  process_->look_at_children();
  process_->kill_all();
  const std::string how = process_->reap();
  log_->warn("the fill worker {} {}", process_->pid(), how);
  process_.reset();
  if (was_ready_ || reported) next_spawn_ = now(), unready_deaths_ = 0;
  if (unready_deaths_ == kMostRespawns)
    log_->error("{} fill workers in a row ended before they were ready; no fill work any more", unready_deaths_);
  std::string message = kill_reason_.empty() ? fmt::format("its worker {}", how) : kill_reason_;
  bool had_job = false;
  {
    const std::lock_guard lock(mutex_);
    targets_ = StopTargets{};
    // Over a limit: the worker said so before it left.
    if (reported && report.serial == job_.serial && report.phase == JobPhase::failed) message = report.message.data();
    const bool had = wish_ == Wish::none && job_.state != AssignedState::waiting && !ended(job_.state);
    had_job = had && reported;
    if (had && !reported) wish_ = Wish::assign;  // it never came to read it
  }
  channel.reset_worker();
  if (had_job) fail_job(message, false);
}

void Supervisor::Impl::fail_job(const std::string& message, bool for_good) {
  std::string path;
  {
    const std::lock_guard lock(mutex_);
    path = job_.directory;
  }
  int failures = 1, tries = FillLimits{}.tries;
  try {
    const JobDirectory directory = JobDirectory::open(path);
    JobState state = directory.read_state();
    const std::int64_t done = done_of(directory, state.done);
    if (done > state.failed_at && !std::exchange(killed_for_overruns_, false)) state.failures = 0;
    state.failed_at = state.done = done;
    failures = ++state.failures;
    state.message = message;
    if (!for_good) tries = directory.read_spec({}).limits.tries;
    state.status = for_good ? JobStatus::failed : failures >= tries ? JobStatus::quarantined : JobStatus::submitted;
    directory.write_state(state);
  } catch (const std::exception& e) {
    // What cannot be written down is still counted here.
    log_->warn("fill job {}: {}", path, e.what());
    const std::lock_guard lock(mutex_);
    failures = job_.failures + 1;
  }
  const std::lock_guard lock(mutex_);
  if (job_.directory != path) return;  // another one was assigned meanwhile
  job_.failures = failures;
  job_.message = message;
  job_.state = for_good            ? AssignedState::failed
               : failures >= tries ? AssignedState::quarantined
                                   : AssignedState::waiting;
  job_.next_try = now() + settings_.back_off * (1 << std::min(failures - 1, 10));
  log_->warn("fill job {} failed ({} of {}): {}{}", path, failures, tries, message,
             job_.state == AssignedState::waiting ? "" : "; it is not tried again");
}

void Supervisor::Impl::look_at_programs() {
  if (!process_) return;
  StopTargets targets;
  const int group = channel.program_group();
  for (const ProcessFacts& child : process_->look_at_children()) {
    if (child.state == 'Z' || child.group == process_->pid() || targets.count == StopTargets::kRoom) continue;
    const bool of_program = group > 1 && child.group == group;
    const int target = of_program ? -group : child.name.pid;
    const auto end = targets.targets.begin() + static_cast<std::ptrdiff_t>(targets.count);
    if (std::find(targets.targets.begin(), end, target) == end) targets.targets[targets.count++] = target;
    if (of_program) targets.program_group = group;
  }
  // Its own group is stopped with it only when it is stopped hard; its children there must stop at every bubble's end.
  for (const ProcessFacts& child : process_->look_at_children())
    if (child.group == process_->pid() && child.state != 'Z' && targets.count < StopTargets::kRoom)
      targets.targets[targets.count++] = child.name.pid;
  const std::lock_guard lock(mutex_);
  const bool open = open_since_ns_.load(std::memory_order_relaxed) != 0;
  for (std::size_t i = 0; i < targets.count && !open; ++i) ::kill(targets.targets[i], SIGSTOP);
  targets_ = targets;
}

void Supervisor::Impl::kill_if_hanging() {
  if (!process_) return;
  const std::int64_t chunk = channel.chunk_began().count(), open = open_since_ns_.load(std::memory_order_relaxed);
  if (chunk == 0) return;
  std::int64_t granted =
      charged_chunk_.load(std::memory_order_relaxed) == chunk ? charged_ns_.load(std::memory_order_relaxed) : 0;
  if (open != 0) granted += now().count() - std::max(open, chunk);
  if (granted <= settings_.hang.count()) return;
  kill_for(fmt::format("chunk {} did not end in {:.1f} s of bubbles; it hangs", channel.done(),
                       to_seconds(Nanoseconds{granted})));
}

/// A job that is made, restored or saved has no chunk that could be timed.
void Supervisor::Impl::kill_if_unready() {
  if (!process_ || channel.phase() != WorkerPhase::preparing) {
    preparing_since_ = Nanoseconds{0};
    return;
  }
  if (preparing_since_ == Nanoseconds{0}) preparing_since_ = now();
  const Nanoseconds time = now() - preparing_since_;
  if (time <= settings_.prepare) return;
  preparing_since_ = Nanoseconds{0};
  kill_for(fmt::format("it was not made, restored or saved within {:.1f} s; it hangs", to_seconds(time)));
}

/// Each such chunk delayed the main job by the grace, and its kind's costs are not to be relied upon.
void Supervisor::Impl::kill_if_overrunning() {
  const std::int64_t overruns = overruns_.load(std::memory_order_relaxed);
  if (!process_ || overruns < settings_.overruns) return;
  const std::int64_t run = channel.done() - done_at_try_;
  if (static_cast<double>(overruns) <= settings_.overrun_share * static_cast<double>(run)) return;
  overruns_.store(0, std::memory_order_relaxed);
  killed_for_overruns_ = true;
  kill_for(
      fmt::format("{} of its last {} chunks ran past their deadline and had to be stopped; its chunks do "
                  "not take the same time when they say so (cost_class)",
                  overruns, std::max(run, overruns)));
}

void Supervisor::Impl::kill_for(std::string reason) {
  kill_reason_ = std::move(reason);
  process_->look_at_children();
  process_->kill_all();
}

void Supervisor::Impl::say_farewell() {
  if (thread_.joinable()) {
    while (!channel.post(WorkerCommand::quit)) {
      const std::uint32_t ticket = channel.ticket();
      if (!channel.answered()) channel.wait_news(ticket, kLookAtPrograms);
    }
    thread_.join();
    return;
  }
  if (!process_) return;
  const Nanoseconds end = now() + kFarewell;
  bool asked = false;
  pollfd gone{process_->descriptor(), POLLIN, 0};
  while (now() < end && ::poll(&gone, 1, 5) == 0)
    if (!asked && channel.phase() != WorkerPhase::starting) asked = channel.post(WorkerCommand::quit);
  process_->look_at_children();
  process_->kill_all();
  process_->reap();
}

}  // namespace pipefill
