#include "engine/fill_desk.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace pipefill {
namespace {

using nlohmann::json;

constexpr Nanoseconds kPlanning = std::chrono::seconds(60);  // of the deck's jobs, before the first step
constexpr Nanoseconds kLoading = std::chrono::seconds(30);   // of a rank's first job
/// Bubbles that nobody has measured yet: any stage that has some is as good as another.
constexpr Nanoseconds kUnmeasured = std::chrono::seconds(1);
constexpr int kLookAtCoverage = 16;   // steps
constexpr double kWellCovered = 0.8;  // of the bubbles: beyond it no other job is looked for
constexpr double kChanged = 0.1;      // of the bubbles: by so much another coverage is worth another meeting

bool is_over(AssignedState state) {
  return state == AssignedState::finished || state == AssignedState::failed || state == AssignedState::quarantined;
}

json cycle_json(const BubbleCycle& cycle) {
  json all = json::array();
  for (const BubbleBudget& b : cycle)
    all.push_back({b.position, static_cast<int>(b.why), b.length.count(), b.memory.count});
  return all;
}

BubbleCycle cycle_of(const json& all) {
  BubbleCycle cycle;
  for (const json& b : all)
    cycle.push_back({b[0], static_cast<BubbleClass>(b[1].get<int>()), Nanoseconds{b[2].get<std::int64_t>()},
                     Bytes{b[3].get<std::int64_t>()}});
  return cycle;
}

bool is_measured(const BubbleCycle& cycle) {
  return std::ranges::any_of(cycle, [](const BubbleBudget& b) { return b.length > Nanoseconds{0}; });
}

double samples_of(const FillConfiguration& configuration) {
  double samples = 0;
  configuration.chunks.total(
      0, [&](const ChunkRun& run, std::int64_t count) { samples += run.samples * static_cast<double>(count); });
  return samples;
}

}  // namespace

FillDesk::FillDesk(FillDeskSettings settings, ProcessLayout layout, RankGroup ranks, FillClerk* clerk, BubbleFill& fill,
                   Trace& trace, Log log)
    : settings_(std::move(settings)),
      layout_(layout),
      ranks_(std::move(ranks)),
      clerk_(clerk),
      fill_(fill),
      trace_(trace),
      log_(std::move(log)) {}

std::vector<std::int32_t> FillDesk::jobs() const {
  std::vector<std::int32_t> numbers;
  for (const auto& member : fill_.crew().members())
    if (member->job >= 0) numbers.push_back(member->job);
  return numbers;
}

void FillDesk::open() {
  for (int round = 0; round < 2; ++round) {  // a job that the first one divides has parts in the second one
    if (clerk_ != nullptr) clerk_->wait_for_plans(kPlanning);
    meet(0, kUnmeasured);
  }
  const auto is_starting = [](const auto& member) {
    return member->job >= 0 && member->worker->job().state == AssignedState::starting;
  };
  const Nanoseconds until = now() + kLoading;
  while (now() < until && std::ranges::any_of(fill_.crew().members(), is_starting))
    fill_.run_alone(std::chrono::milliseconds(10));
  fill_.run_alone(settings_.alone);
}

void FillDesk::close() {
  fill_.run_alone(settings_.alone);
  meet(0, kUnmeasured);
  const FillCrew& crew = fill_.crew();
  std::int64_t stops = 0, stopped_ns = 0;
  for (const std::string& text : ranks_.gather(json{crew.hard_stops(), crew.hard_stopped_time().count()}.dump())) {
    const json told = json::parse(text);
    stops += told[0].get<std::int64_t>(), stopped_ns += told[1].get<std::int64_t>();
  }
  if (stops > 0)
    log_->info("fill work: {} chunks ran over the end of their bubble and were stopped, for {} in all", stops,
               format_duration(Nanoseconds{stopped_ns}));
}

bool FillDesk::has_news() {
  const bool clerk = clerk_ != nullptr && clerk_->take_news();
  const bool over = std::ranges::any_of(fill_.crew().members(), [](const auto& member) {
    return member->job >= 0 && is_over(member->worker->job().state);
  });
  return has_room() || clerk || over;
}

/// True when the jobs leave enough unused for another one, once for each state of affairs.
bool FillDesk::has_room() {
  const std::size_t jobs = fill_.crew().jobs();
  if (jobs == 0 || jobs >= settings_.most_jobs || ++steps_ % kLookAtCoverage != 0) return false;
  const FillFigures figures = fill_.figures();
  const Nanoseconds bubbles = figures.bubbles - seen_.bubbles, chunks = figures.chunks - seen_.chunks;
  seen_ = figures;
  if (bubbles == Nanoseconds{0}) return false;
  const double coverage = to_seconds(chunks) / to_seconds(bubbles);
  if (coverage > kWellCovered || (told_coverage_ && std::abs(coverage - *told_coverage_) < kChanged)) return false;
  told_coverage_ = coverage;
  return true;
}

void FillDesk::meet(std::int64_t step, Nanoseconds step_time) {
  const std::vector<std::string> states = ranks_.gather(tell_state());
  const std::string orders = clerk_ != nullptr ? decide(states, step, step_time) : "";
  obey(ranks_.gather(orders).front());
}

std::string FillDesk::tell_state() {
  json jobs = json::array();
  for (const std::int32_t number : this->jobs()) {
    CrewMember& member = *fill_.crew().find(number);
    const AssignedJob assigned = member.worker->job();
    json times = json::array();
    for (const auto& [cost_class, recent] : member.times) times.push_back({cost_class, recent.median().count()});
    jobs.push_back({{"job", number},
                    {"over", is_over(assigned.state)},
                    {"done", assigned.done},
                    {"fill_ns", std::exchange(member.fill_time, Nanoseconds{0}).count()},
                    {"times", std::move(times)}});
    if (is_over(assigned.state)) fill_.crew().release(number), told_coverage_.reset();
  }
  return json{{"cycle", cycle_json(fill_.cycle())}, {"jobs", std::move(jobs)}}.dump();
}

/// Rank 0. What one rank said, as the scheduler sees it. Jobs to be taken back are left in `drop`, those that stay in
/// `stay`.
FillExecutor FillDesk::hear(int rank, const std::string& text, json& drop, std::vector<ClerkJob>& stay) {
  const json state = json::parse(text);
  FillExecutor executor;
  executor.stage = layout_.stage_of({rank}).value;
  executor.replica = layout_.replica_of({rank}).value;
  executor.cycle = cycle_of(state["cycle"]);
  executor.room = static_cast<int>(settings_.most_jobs);
  if (!is_measured(executor.cycle)) {
    for (BubbleBudget& b : executor.cycle) b.length = kUnmeasured, b.memory = Bytes{INT64_MAX / 4};
    executor.room = 1;
  }
  for (const json& told : state["jobs"]) {
    JobOutcome outcome{told["job"],
                       told["over"] ? OutcomeState::over : OutcomeState::running,
                       told["done"],
                       Nanoseconds{told["fill_ns"].get<std::int64_t>()},
                       {}};
    for (const json& time : told["times"])
      outcome.times.emplace_back(time[0].get<int>(), Nanoseconds{time[1].get<std::int64_t>()});
    const std::optional<ClerkJob> job = clerk_->find(outcome.job);
    if (outcome.state == OutcomeState::running && job && job->cancelled) {
      outcome.state = OutcomeState::over;
      drop.push_back(outcome.job);
    }
    clerk_->note(outcome);
    if (outcome.state == OutcomeState::over) continue;
    // What it leaves over is not known before its chunks are.
    executor.room = outcome.times.empty() ? 0 : std::max(0, executor.room - 1);
    if (const std::optional<ClerkJob> now_known = clerk_->find(outcome.job)) stay.push_back(*now_known);
  }
  return executor;
}

/// Rank 0. What each rank is to do: {"rank": {"drop": [numbers], "assign": [jobs]}}.
std::string FillDesk::decide(const std::vector<std::string>& states, std::int64_t step, Nanoseconds step_time) {
  std::vector<FillExecutor> executors;
  std::vector<std::vector<ClerkJob>> running(states.size());
  json orders = json::object();
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    json drop = json::array();
    FillExecutor executor = hear(static_cast<int>(rank), states[rank], drop, running[rank]);
    executor.step_time = step_time;
    for (const ClerkJob& job : running[rank]) executor.sharing.push_back(&job.info);
    if (!drop.empty()) orders[std::to_string(rank)]["drop"] = std::move(drop);
    executors.push_back(std::move(executor));
  }

  const std::vector<ClerkJob> waiting = clerk_->waiting();
  std::vector<const FillJobInfo*> queue;
  for (const ClerkJob& job : waiting) queue.push_back(&job.info);
  for (const FillDecision& decision :
       assign_jobs(queue, executors, clerk_->owner_time(), fill_.plan_settings(), settings_.policy, now())) {
    const auto job = std::ranges::find(waiting, decision.job, [](const ClerkJob& j) { return j.info.id; });
    if (decision.shards > 1) {
      if (decision.shard != 0) continue;  // the parts come to the queue and are given out like any job
      clerk_->divide(decision);
      log_->info("fill job {} is divided into {} parts: {}", job->info.name, decision.shards, decision.reason);
      continue;
    }
    const FillConfiguration& configuration = job->info.configurations[static_cast<std::size_t>(decision.configuration)];
    clerk_->hand_out(decision, step, decision.executor);
    log_->info("fill job {} goes to rank {}: {}", job->info.name, decision.executor, decision.reason);
    orders[std::to_string(decision.executor)]["assign"].push_back({{"job", decision.job},
                                                                   {"name", job->info.name},
                                                                   {"kind", job->info.kind},
                                                                   {"directory", job->directory},
                                                                   {"configuration", configuration.name},
                                                                   {"resident", configuration.resident.count},
                                                                   {"chunks", configuration.chunks.size()},
                                                                   {"samples", samples_of(configuration)}});
  }
  return orders.dump();
}

void FillDesk::obey(const std::string& text) {
  const json orders = json::parse(text);
  const auto mine = orders.find(std::to_string(ranks_.rank));
  if (mine == orders.end()) return;
  told_coverage_.reset();
  for (const json& number : mine->value("drop", json::array())) fill_.crew().release(number);
  for (const json& job : mine->value("assign", json::array())) {
    fill_.crew().assign({.number = job["job"],
                         .directory = job["directory"],
                         .configuration = job["configuration"],
                         .resident = Bytes{job["resident"].get<std::int64_t>()}});
    trace_.name_job({.job = job["job"],
                     .name = job["name"],
                     .kind = job["kind"],
                     .configuration = job["configuration"],
                     .chunks = job["chunks"],
                     .samples = job["samples"]});
  }
}

}  // namespace pipefill
