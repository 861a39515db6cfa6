#include "engine/bubble_fill.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.hpp"

namespace pipefill {
namespace {

/// After the deadline the worker should have parked; a chunk that took longer than it was expected to is looked at so
/// often until the input is there.
constexpr Nanoseconds kLatePoll = std::chrono::microseconds(200);
constexpr Nanoseconds kNever = Nanoseconds::max();
constexpr std::size_t kMostParts = 64;  // of one chunk; a hard stopped one may lie in more bubbles than anybody counts

}  // namespace

BubbleFill::BubbleFill(const BubbleFillSettings& settings, const Program& program, FillCrew& crew, Trace& trace,
                       RankBell bell)
    : model_(program),
      decider_(settings.strategy, model_),
      guard_(settings.guard),
      blocks_(settings.audit),
      meter_(blocks_),
      first_filled_(settings.audit.first_step),
      crew_(crew),
      trace_(trace),
      bell_(bell),
      plain_(make_pause(settings.wait)),
      shared_(make_pause(WaitMethod::sleep)) {
  decider_.set_guard(guard_.guard());
}

void BubbleFill::begin_step(std::int64_t step) {
  step_ = step;
  for (const auto& member : crew_.members())
    if (!std::exchange(member->offered, false) && filled_) ++member->skipped;
  if (!profiled_ && step >= first_filled_) decider_.end_profile(), profiled_ = true;
  filled_ = profiled_ && crew_.has_jobs() && blocks_.mode(step) == StepMode::filled;
  if (traits().gated) return;
  if (!filled_)
    pause_work();
  else if ((!open_ || crew_.parked()) && crew_.wants_grant())  // not parked: stopped hard in its chunk
    crew_.grant_without_deadline(), open_ = true;
}

Pause& BubbleFill::enter(int position, Nanoseconds begin, Bytes free_memory, RankId sender) {
  position_ = position, bubble_begin_ = begin, free_memory_ = free_memory;
  sold_ = Nanoseconds{0};
  listens_ = at_rest_ && bell_.doorbells != nullptr && bell_.doorbells->has(sender);
  if (!filled_ || position < 0) return *plain_;
  if (!traits().gated) return *shared_;
  return *this;
}

void BubbleFill::begin() {
  plain_->begin();
  ask();
}

/// What the worker may take for silence: every ring so far was for a message that has come whole, and nothing that this
/// rank sent needs its progress.
std::optional<std::uint32_t> BubbleFill::may_sleep_over() const {
  if (!listens_) return std::nullopt;
  const std::uint32_t rung = bell_.doorbells->count(bell_.mine);
  if (rung != bell_.doorbells->answered(bell_.mine) || !at_rest_()) return std::nullopt;
  return rung;
}

/// Each job is made an offer for chunks of its length.
void BubbleFill::ask() {
  const Nanoseconds time = now();
  Grant longest;
  next_question_ = kNever;
  for (const auto& member : crew_.members()) {
    member->deadline = Nanoseconds{0};
    if (!member->worker->wants_grant()) continue;
    const Grant offer = decider_.decide(position_, bubble_begin_, time, free_memory_, member->usual_chunk());
    next_question_ = std::min(next_question_, offer.ask_again);
    if (offer.gate == Gate::closed) continue;
    member->offered = true;
    member->deadline = offer.deadline;
    if (offer.deadline > longest.deadline) longest = offer;
  }
  if (longest.gate == Gate::closed) return;
  if (longest.not_before <= time)
    grant(longest);
  else
    pending_ = longest, pending_question_ = std::exchange(next_question_, longest.not_before);
}

void BubbleFill::grant(const Grant& offer) {
  crew_.grant(offer.memory);
  open_ = true;
  sold_ = std::max(sold_, offer.deadline - bubble_begin_);
}

void BubbleFill::pause() {
  if (open_ && crew_.busy()) {
    crew_.set_heard(may_sleep_over());
    const Nanoseconds left = crew_.deadline() - now();
    crew_.wait_news(left > Nanoseconds{0} ? left + kLatePoll : kLatePoll);
    return;
  }
  if (next_question_ != kNever && now() >= next_question_) {
    if (pending_) {
      next_question_ = pending_question_;
      grant(*pending_);
      pending_.reset();
    } else {
      ask();
    }
    return;
  }
  plain_->pause();
}

void BubbleFill::leave() {
  pending_.reset();
  if (!traits().gated || !open_) return;
  if (traits().on_arrival == OnArrival::stop || crew_.parked()) crew_.stop(), open_ = false;
}

void BubbleFill::pause_work() {
  if (open_) crew_.stop();
  open_ = false;
}

Nanoseconds BubbleFill::record(int position, Nanoseconds begin, Nanoseconds arrival, Bytes free_memory) {
  if (position < 0) return Nanoseconds{0};
  model_.record(position, arrival - begin, free_memory);
  bubbles_.push_back({position, begin, arrival, filled_});
  if (filled_) bubble_time_ += arrival - begin;
  return std::exchange(sold_, Nanoseconds{0});
}

GuardMove BubbleFill::end_step(Nanoseconds time) {
  record_chunks();
  if (!profiled_) return GuardMove::none;
  const std::optional<SlowdownMeter::Pair> pair =
      meter_.step(step_, time, filled_ ? StepMode::filled : StepMode::unfilled);
  if (!pair || step_ < first_filled_ || !traits().guarded) return GuardMove::none;
  int sold = 0;
  Nanoseconds longest{0};
  for (const BubbleBudget& bubble : decider_.cycle()) {
    sold += bubble.length > Nanoseconds{0} ? 1 : 0;
    longest = std::max(longest, bubble.length);
  }
  const GuardMove move = guard_.pair(*pair, std::max(1, sold), longest);
  decider_.set_guard(guard_.guard());
  return move;
}

FillFigures BubbleFill::figures() const { return {bubble_time_, chunk_time_, meter_.estimate(), guard_.guard()}; }

/// Told here, at the end of the step, because only now all bubbles' ends are known.
void BubbleFill::record_chunks() {
  for (const auto& member : crew_.members()) {
    chunks_.clear();
    member->worker->drain(chunks_);
    for (const ChunkRecord& chunk : chunks_)
      if (member->job_of(chunk) >= 0) record_chunk(*member, chunk);
  }
  bubbles_.erase(bubbles_.begin(), bubbles_.begin() + static_cast<std::ptrdiff_t>(bubbles_of_last_step_));
  bubbles_of_last_step_ = bubbles_.size();
}

/// A chunk lies in one bubble, or in several when it was stopped hard, and beyond them. Time between bubbles counts as
/// overrun only as far as it was not stopped.
void BubbleFill::record_chunk(CrewMember& member, const ChunkRecord& chunk) {
  const Nanoseconds start{chunk.start_ns}, end{chunk.end_ns};
  Event event{.step = static_cast<std::int32_t>(step_),
              .job = member.job_of(chunk),
              .fill_chunk = static_cast<std::int32_t>(chunk.chunk)};
  std::array<Event, kMostParts> parts;
  std::size_t count = 0;
  Nanoseconds inside{0};
  const auto add = [&](EventKind kind, int position, Nanoseconds from, Nanoseconds to) {
    if (to <= from || count == parts.size()) return;
    event.kind = kind, event.slot = position, event.start = from, event.end = to;
    parts[count++] = event;
    if (kind == EventKind::fill) inside += to - from;
  };
  Nanoseconds at = start;
  for (const Bubble& bubble : bubbles_) {
    if (bubble.arrival <= at || bubble.begin >= end) continue;
    add(EventKind::overrun, -1, at, bubble.begin);
    // In a step that is not filled it stood still, stopped hard.
    if (bubble.filled) add(EventKind::fill, bubble.position, std::max(at, bubble.begin), std::min(end, bubble.arrival));
    at = bubble.arrival;
  }
  add(EventKind::overrun, -1, at, end);
  Nanoseconds overrun = std::max(Nanoseconds{0}, end - start - Nanoseconds{chunk.stopped_ns} - inside);
  if (count > 0 && chunk.outcome == ChunkOutcome::finished)
    parts[count - 1].cost_class = static_cast<std::int16_t>(chunk.cost_class);
  const double cpu_share =
      static_cast<double>(chunk.program_cpu_ns) /
      static_cast<double>(std::max<std::int64_t>(1, chunk.end_ns - chunk.start_ns - chunk.stopped_ns));
  for (std::size_t i = 0; i < count; ++i) {
    Event& part = parts[i];
    if (part.kind == EventKind::fill)
      part.granted =
          Nanoseconds{static_cast<std::int64_t>(cpu_share * static_cast<double>((part.end - part.start).count()))};
    if (part.kind == EventKind::overrun) {
      part.end = std::min(part.end, part.start + overrun);
      overrun -= part.end - part.start;
    }
    trace_.record(part);
  }
  chunk_time_ += inside;
  if (member.job_of(chunk) != member.job) return;
  member.fill_time += inside;
  member.learn(chunk);
}

void BubbleFill::run_alone(Nanoseconds time) {
  for (const auto& member : crew_.members())
    if (member->job >= 0) run_alone(*member, time);
}

void BubbleFill::run_alone(CrewMember& member, Nanoseconds time) {
  const Nanoseconds until = now() + time;
  while (now() < until) {
    if (!open_ || crew_.parked()) {
      if (!member.worker->wants_grant()) break;
      crew_.grant_only(member), open_ = true;
    }
    crew_.wait_news(until - now());
  }
  pause_work();
  chunks_.clear();
  member.worker->drain(chunks_);
  for (const ChunkRecord& chunk : chunks_) {
    member.learn(chunk);
    if (chunk.outcome != ChunkOutcome::finished) continue;
    trace_.record({.kind = EventKind::exclusive,
                   .job = member.job,
                   .fill_chunk = static_cast<std::int32_t>(chunk.chunk),
                   .cost_class = static_cast<std::int16_t>(chunk.cost_class),
                   .start = Nanoseconds{chunk.start_ns},
                   .end = Nanoseconds{chunk.end_ns}});
  }
}

}  // namespace pipefill
