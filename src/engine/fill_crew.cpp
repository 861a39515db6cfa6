#include "engine/fill_crew.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"

namespace pipefill {
namespace {

constexpr int kMostSkipped = 32;
constexpr int kPatience = 3;  // bubbles that one chunk may run over before the others go first

}  // namespace

void CrewMember::learn(const ChunkRecord& chunk) {
  if (chunk.outcome != ChunkOutcome::finished) return;
  const Nanoseconds took{chunk.end_ns - chunk.start_ns - chunk.stopped_ns};
  times[chunk.cost_class].add(took);
  lengths.add(took);
}

Nanoseconds CrewMember::usual_chunk() const { return skipped < kMostSkipped ? lengths.median() : Nanoseconds{0}; }

FillCrew::FillCrew(SupervisorSettings settings, Log log) : settings_(std::move(settings)), log_(std::move(log)) {
  members_.push_back(std::make_unique<CrewMember>(std::make_unique<Supervisor>(settings_, log_)));
}

void FillCrew::start() { members_.front()->worker->start(); }

void FillCrew::assign(const CrewJob& job) {
  if (jobs_ == members_.size())
    members_.push_back(std::make_unique<CrewMember>(std::make_unique<Supervisor>(settings_, log_)));
  CrewMember& member = *members_[jobs_++];
  member.job = job.number;
  member.resident = job.resident;
  member.fill_time = Nanoseconds{0};
  member.times.clear();
  member.lengths.clear();
  member.stops = member.skipped = 0;
  member.serial = member.worker->assign(job.directory, job.configuration);
}

void FillCrew::release(std::int32_t number) {
  const auto found = std::ranges::find(members_, number, [](const auto& member) { return member->job; });
  if (found == members_.end()) return;
  (*found)->former_job = std::exchange((*found)->job, -1);
  (*found)->resident = Bytes{0};
  (*found)->worker->drop();
  std::rotate(found, found + 1, members_.end());
  --jobs_;
}

CrewMember* FillCrew::find(std::int32_t number) {
  const auto found = std::ranges::find(members_, number, [](const auto& member) { return member->job; });
  return found == members_.end() ? nullptr : found->get();
}

bool FillCrew::wants_grant() const {
  return std::ranges::any_of(members_, [](const auto& member) { return member->worker->wants_grant(); });
}

void FillCrew::grant_without_deadline() {
  for (const auto& member : members_) member->deadline = kNoDeadline;
  grant(Bytes{INT64_MAX});
}

void FillCrew::grant(Bytes memory) {
  memory_ = memory;
  for (const auto& member : members_) memory_ -= member->resident;
  asked_.clear();
  current_ = nullptr;
  // A chunk that still runs, for nothing stops a thread, goes first, whose ever it is: two would share the core.
  for (const auto& member : members_) {
    const Supervisor& worker = *member->worker;
    const bool runs = !worker.parked() && member->stops == 0 && worker.channel().phase() == WorkerPhase::running;
    if (!runs || !worker.wants_grant() || member->deadline <= now()) continue;
    current_ = member.get();
    asked_.push_back(current_);
    current_->worker->grant(current_->deadline, memory_);
    return;
  }
  hand_on();
}

void FillCrew::grant_only(CrewMember& member) {
  current_ = &member;
  asked_.clear();
  for (const auto& each : members_) asked_.push_back(each.get());
  member.worker->grant(kNoDeadline, Bytes{INT64_MAX});
}

FillCrew::Claim FillCrew::claim(const CrewMember& member) {
  const WorkerPhase phase = member.worker->channel().phase();
  // One that prepares (loads a job, saves) needs the core too, but after those that can run chunks.
  if (phase != WorkerPhase::parked && phase != WorkerPhase::running) return Claim::preparing;
  return member.stops >= kPatience ? Claim::behind : Claim::usual;
}

/// Without waking it.
bool FillCrew::can_use(CrewMember& member) const {
  const Supervisor& worker = *member.worker;
  if (!worker.wants_grant() || member.deadline <= now()) return false;
  const std::optional<NextChunk> next = worker.channel().next_chunk();
  if (!next || member.deadline == kNoDeadline) return true;
  const bool fits = next->memory <= memory_ && now() + next->budget <= member.deadline;
  const bool doubted = member.skipped >= kMostSkipped;
  member.skipped = fits || doubted ? 0 : member.skipped + 1;
  return fits || doubted;  // it may know better by now
}

bool FillCrew::hand_on() {
  for (const Claim which : {Claim::usual, Claim::behind, Claim::preparing})
    for (const auto& member : members_) {
      if (claim(*member) != which || std::ranges::find(asked_, member.get()) != asked_.end()) continue;
      if (!can_use(*member)) {
        asked_.push_back(member.get());  // what is left of the grant only gets shorter
        continue;
      }
      current_ = member.get();
      asked_.push_back(current_);
      current_->worker->grant(current_->deadline, memory_);
      return true;
    }
  return false;
}

void FillCrew::wait_news(Nanoseconds timeout) { current_->worker->wait_news(timeout); }

bool FillCrew::busy() { return !parked() || hand_on(); }

void FillCrew::stop() {
  if (current_ == nullptr) return;
  const bool hard = current_->worker->stop() == ParkResult::hard_stopped;
  current_->stops = hard ? current_->stops + 1 : 0;
}

std::int64_t FillCrew::hard_stops() const {
  std::int64_t sum = 0;
  for (const auto& member : members_) sum += member->worker->hard_stops();
  return sum;
}

Nanoseconds FillCrew::hard_stopped_time() const {
  Nanoseconds sum{0};
  for (const auto& member : members_) sum += member->worker->hard_stopped_time();
  return sum;
}

}  // namespace pipefill
