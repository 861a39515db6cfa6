#include "engine/fill_crew.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace pipefill {

void CrewMember::learn(const ChunkRecord& chunk) {
  if (chunk.outcome != ChunkOutcome::finished) return;
  const Nanoseconds took{chunk.end_ns - chunk.start_ns - chunk.stopped_ns};
  times[chunk.cost_class].add(took);
  lengths.add(took);
}

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
  member.worker->assign(job.directory, job.configuration);
}

void FillCrew::release(std::int32_t number) {
  const auto found = std::ranges::find(members_, number, [](const auto& member) { return member->job; });
  if (found == members_.end()) return;
  (*found)->job = -1;
  (*found)->worker->drop();
  std::rotate(found, found + 1, members_.end());
  --jobs_;
}

CrewMember* FillCrew::find(std::int32_t number) {
  const auto found = std::ranges::find(members_, number, [](const auto& member) { return member->job; });
  return found == members_.end() ? nullptr : found->get();
}

Nanoseconds FillCrew::usual_chunk() const {
  Nanoseconds shortest = Nanoseconds::max();
  for (std::size_t i = 0; i < jobs_; ++i) shortest = std::min(shortest, members_[i]->lengths.median());
  return jobs_ == 0 ? Nanoseconds{0} : shortest;
}

bool FillCrew::wants_grant() const {
  return std::ranges::any_of(members_, [](const auto& member) { return member->worker->wants_grant(); });
}

void FillCrew::grant(Nanoseconds deadline, Bytes memory) {
  deadline_ = deadline, memory_ = memory;
  for (const auto& member : members_) memory_ -= member->resident;
  asked_.clear();
  // A chunk that is under way goes first, whose ever it is: two at once would share the core.
  if (current_ != nullptr && !current_->worker->parked() && current_->worker->wants_grant()) {
    asked_.push_back(current_);
    current_->worker->grant(deadline_, memory_);
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

/// Without waking it.
bool FillCrew::can_use(const CrewMember& member) const {
  const Supervisor& worker = *member.worker;
  if (!worker.wants_grant()) return false;
  const std::optional<NextChunk> next = worker.channel().next_chunk();
  if (!next || deadline_ == kNoDeadline) return true;
  return next->memory <= memory_ && now() + next->budget <= deadline_;
}

bool FillCrew::hand_on() {
  // One that prepares (loads a job, saves) needs the core too, but after those that can run chunks.
  for (const bool preparing : {false, true})
    for (const auto& member : members_) {
      const bool is_preparing = member->worker->channel().phase() != WorkerPhase::parked &&
                                member->worker->channel().phase() != WorkerPhase::running;
      if (is_preparing != preparing || std::ranges::find(asked_, member.get()) != asked_.end() || !can_use(*member))
        continue;
      current_ = member.get();
      asked_.push_back(current_);
      current_->worker->grant(deadline_, memory_);
      return true;
    }
  return false;
}

void FillCrew::wait_news(Nanoseconds timeout) { current_->worker->wait_news(timeout); }

bool FillCrew::busy() {
  if (current_ == nullptr) return false;
  return !current_->worker->parked() || (now() < deadline_ && hand_on());
}

void FillCrew::stop() {
  if (current_ != nullptr) current_->worker->stop();
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
