// The main thread's half of Supervisor: grants, stops, questions. A few microseconds each.
#include "worker/supervisor.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "worker/supervisor_impl.hpp"

namespace pipefill {

Supervisor::Impl::Impl(SupervisorSettings settings, Log log)
    : channel(WorkerChannel::create()), settings_(std::move(settings)), log_(std::move(log)) {
  channel.set_rule(settings_.rule);
  bell_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (bell_.get() < 0)
    throw FileError(ExitCode::input_output, "fill worker", system_text("cannot make eventfd", errno));
  // Orphans of a killed worker come to this process, so that they can be found and ended.
  if (settings_.isolation == FillIsolation::process) ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  helper_ = std::thread([this] { help(); });
}

Supervisor::Impl::~Impl() {
  stop();
  resume();
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  signal_helper();
  helper_.join();
}

void Supervisor::Impl::signal_helper() {
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);
}

void Supervisor::Impl::start() {
  {
    const std::lock_guard lock(mutex_);
    wants_worker_ = true;
  }
  signal_helper();
}

bool Supervisor::Impl::wait_ready(Nanoseconds timeout) {
  const Nanoseconds end = now() + timeout;
  for (;;) {
    const std::uint32_t ticket = channel.ticket();
    if (alive_ && channel.phase() != WorkerPhase::starting) return true;
    const Nanoseconds left = end - now();
    if (left.count() <= 0) return false;
    channel.wait_news(ticket, left);
  }
}

std::uint64_t Supervisor::Impl::assign(const std::string& directory, const std::string& configuration) {
  std::uint64_t serial = 0;
  {
    const std::lock_guard lock(mutex_);
    serial = ++serials_;
    job_ = AssignedJob{};
    job_.state = AssignedState::starting;
    job_.serial = serial;
    job_.directory = directory;
    job_.configuration = configuration;
    wish_ = Wish::assign;
    wants_worker_ = true;
  }
  signal_helper();
  return serial;
}

void Supervisor::Impl::drop() {
  {
    const std::lock_guard lock(mutex_);
    job_ = AssignedJob{};
    wish_ = Wish::drop;
  }
  signal_helper();
}

void Supervisor::Impl::save() {
  {
    const std::lock_guard lock(mutex_);
    wants_save_ = true;
  }
  signal_helper();
}

AssignedJob Supervisor::Impl::job() {
  if (channel.reports() != reports_told_) {
    reports_told_ = channel.reports();
    signal_helper();
  }
  const std::lock_guard lock(mutex_);
  if (job_.state == AssignedState::ready) job_.done = channel.done();
  return job_;
}

bool Supervisor::Impl::wants_grant() const {
  // A worker that starts or prepares needs the core too: it is in the idle class.
  return alive_ && (channel.phase() != WorkerPhase::idle || !channel.answered());
}

std::uint64_t Supervisor::Impl::grant(Nanoseconds deadline, Bytes memory) {
  ticket_ = channel.ticket();
  resume();
  const std::uint64_t sequence = channel.grant(deadline, memory);
  open_ = true;
  open_since_ = now();
  deadline_ = deadline;
  open_since_ns_.store(open_since_.count(), std::memory_order_relaxed);
  return sequence;
}

FutexWake Supervisor::Impl::wait_news(Nanoseconds timeout) {
  const FutexWake woken = channel.wait_news(ticket_, timeout);
  ticket_ = channel.ticket();
  return woken;
}

void Supervisor::Impl::resume() {
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock)
      for (std::size_t i = 0; i < targets_.count; ++i) ::kill(targets_.targets[i], SIGCONT);
  }
  if (!hard_stopped_) return;
  const int worker = pid.load();
  if (worker > 0) ::kill(-worker, SIGCONT);
  const Nanoseconds time = now() - hard_stopped_since_;
  channel.add_stopped(time);
  hard_stopped_time += time;
  hard_stopped_ = false;
}

/// True when the job is a program and has been stopped.
bool Supervisor::Impl::stop_programs() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  for (std::size_t i = 0; i < targets_.count; ++i) ::kill(targets_.targets[i], SIGSTOP);
  const int group = channel.program_group();
  if (group != targets_.program_group) signal_helper();  // a new one, whose claim the helper has to check
  return group != 0 && group == targets_.program_group;
}

void Supervisor::Impl::charge(Nanoseconds until) {
  const std::int64_t chunk = channel.chunk_began().count();
  const std::int64_t from = std::max(chunk, open_since_.count());
  if (chunk != charged_chunk_.load(std::memory_order_relaxed)) {
    charged_chunk_.store(chunk, std::memory_order_relaxed);
    charged_ns_.store(0, std::memory_order_relaxed);
  }
  if (chunk != 0) charged_ns_.fetch_add(std::max<std::int64_t>(0, until.count() - from), std::memory_order_relaxed);
  open_since_ns_.store(0, std::memory_order_relaxed);
}

void Supervisor::Impl::count_overrun() {
  const std::int64_t chunk = channel.chunk_began().count();
  if (chunk == 0 || chunk == overrun_chunk_ || now() <= deadline_) return;
  overrun_chunk_ = chunk;
  if (overruns_.fetch_add(1, std::memory_order_relaxed) + 1 >= settings_.overruns) signal_helper();
}

ParkResult Supervisor::Impl::stop() {
  if (!open_) return ParkResult::parked;
  open_ = false;
  channel.stop();
  const Nanoseconds stopped = now();
  charge(stopped);
  if (charged_ns_.load(std::memory_order_relaxed) > settings_.hang.count()) signal_helper();
  const bool program = stop_programs();
  const auto at_rest = [&] {  // seen after the stop was said: a worker not running a chunk begins none
    return !alive_ || channel.parked() || channel.phase() != WorkerPhase::running;
  };
  while (!program && !at_rest()) {
    const std::uint32_t ticket = channel.ticket();
    const Nanoseconds left = stopped + settings_.grace - now();
    if (at_rest()) break;
    if (left.count() > 0) {
      channel.wait_news(ticket, left);
      continue;
    }
    if (settings_.isolation == FillIsolation::in_process) return ParkResult::still_running;
    const int worker = pid.load();
    if (worker <= 0) break;
    ::kill(-worker, SIGSTOP);
    hard_stopped_ = true;
    hard_stopped_since_ = now();
    ++hard_stops;
    count_overrun();
    return ParkResult::hard_stopped;
  }
  if (channel.reports() != reports_told_) {
    reports_told_ = channel.reports();
    signal_helper();
  }
  return ParkResult::parked;
}

Supervisor::Supervisor(SupervisorSettings settings, Log log)
    : impl_(std::make_unique<Impl>(std::move(settings), std::move(log))) {}
Supervisor::~Supervisor() = default;
void Supervisor::start() { impl_->start(); }
bool Supervisor::wait_ready(Nanoseconds timeout) { return impl_->wait_ready(timeout); }
std::uint64_t Supervisor::assign(const std::string& directory, const std::string& configuration) {
  return impl_->assign(directory, configuration);
}
void Supervisor::drop() { impl_->drop(); }
void Supervisor::save() { impl_->save(); }
AssignedJob Supervisor::job() const { return impl_->job(); }
bool Supervisor::wants_grant() const { return impl_->wants_grant(); }
std::uint64_t Supervisor::grant(Nanoseconds deadline, Bytes memory) { return impl_->grant(deadline, memory); }
FutexWake Supervisor::wait_news(Nanoseconds timeout) { return impl_->wait_news(timeout); }
void Supervisor::set_heard(std::optional<std::uint32_t> heard) { impl_->channel.set_heard(heard); }
bool Supervisor::parked() const { return impl_->channel.parked(); }
ParkResult Supervisor::stop() { return impl_->stop(); }
void Supervisor::drain(std::vector<ChunkRecord>& records) { impl_->channel.drain(records); }
Nanoseconds Supervisor::hard_stopped_time() const { return impl_->hard_stopped_time; }
std::int64_t Supervisor::hard_stops() const { return impl_->hard_stops; }
std::int64_t Supervisor::restarts() const { return impl_->restarts; }
int Supervisor::worker_pid() const { return impl_->pid; }
const WorkerChannel& Supervisor::channel() const { return impl_->channel; }

}  // namespace pipefill
