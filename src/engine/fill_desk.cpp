#include "engine/fill_desk.hpp"

#include <algorithm>
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
  const bool measured = std::ranges::any_of(cycle, [](const BubbleBudget& b) { return b.length > Nanoseconds{0}; });
  if (!measured)
    for (BubbleBudget& b : cycle) b.length = kUnmeasured, b.memory = Bytes{INT64_MAX / 4};
  return cycle;
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

void FillDesk::open() {
  if (clerk_ != nullptr) clerk_->wait_for_plans(kPlanning);
  meet(0, kUnmeasured);
  if (job_) {
    const Nanoseconds until = now() + kLoading;
    while (now() < until && fill_.worker().job().state == AssignedState::starting)
      fill_.run_alone(std::chrono::milliseconds(10), job());
    fill_.run_alone(settings_.alone, job());
  }
}

void FillDesk::close() {
  if (job_) fill_.run_alone(settings_.alone, job());
  meet(0, kUnmeasured);
}

bool FillDesk::has_news() {
  if (clerk_ != nullptr && clerk_->take_news()) return true;
  return job_ && is_over(fill_.worker().job().state);
}

void FillDesk::meet(std::int64_t step, Nanoseconds step_time) {
  const std::vector<std::string> states = ranks_.gather(tell_state());
  const std::string orders = clerk_ != nullptr ? decide(states, step, step_time) : "";
  obey(ranks_.gather(orders).front());
}

std::string FillDesk::tell_state() {
  json state{{"cycle", cycle_json(fill_.cycle())}, {"job", job()}};
  if (job_) {
    const AssignedJob assigned = fill_.worker().job();
    state["over"] = is_over(assigned.state);
    state["done"] = assigned.done;
    const Nanoseconds chunks = fill_.figures().chunks;
    state["fill_ns"] = (chunks - std::exchange(told_, chunks)).count();
    if (is_over(assigned.state)) job_.reset();
  }
  return state.dump();
}

/// Rank 0. What the ranks said, then what each is to do: {"rank": {"job": n, "directory": "...", ...}}; null: drop it.
std::string FillDesk::decide(const std::vector<std::string>& states, std::int64_t step, Nanoseconds step_time) {
  std::vector<FillExecutor> executors;
  json orders = json::object();
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    const json state = json::parse(states[rank]);
    FillExecutor executor;
    executor.stage = layout_.stage_of({static_cast<int>(rank)}).value;
    executor.replica = layout_.replica_of({static_cast<int>(rank)}).value;
    executor.cycle = cycle_of(state["cycle"]);
    executor.step_time = step_time;
    const std::int64_t number = state["job"];
    if (number >= 0) {
      const bool over = state["over"];
      clerk_->note({number, over ? OutcomeState::over : OutcomeState::running, state["done"],
                    Nanoseconds{state["fill_ns"].get<std::int64_t>()}});
      const std::optional<ClerkJob> job = clerk_->find(number);
      if (!over && job && job->cancelled) {
        orders[std::to_string(rank)] = nullptr;
        clerk_->note({number, OutcomeState::over, state["done"], {}});
      } else if (!over) {
        executor.room = 0;
      }
    }
    executors.push_back(std::move(executor));
  }

  const std::vector<ClerkJob> waiting = clerk_->waiting();
  std::vector<const FillJobInfo*> queue;
  for (const ClerkJob& job : waiting) queue.push_back(&job.info);
  for (const FillDecision& decision :
       assign_jobs(queue, executors, clerk_->owner_time(), fill_.plan_settings(), settings_.policy, now())) {
    const auto job = std::ranges::find(waiting, decision.job, [](const ClerkJob& j) { return j.info.id; });
    const FillConfiguration& configuration = job->info.configurations[static_cast<std::size_t>(decision.configuration)];
    clerk_->hand_out(decision, step, decision.executor);
    log_->info("fill job {} goes to rank {}: {}", job->info.name, decision.executor, decision.reason);
    orders[std::to_string(decision.executor)] = {{"job", decision.job},
                                                 {"name", job->info.name},
                                                 {"kind", job->info.kind},
                                                 {"directory", job->directory},
                                                 {"configuration", configuration.name},
                                                 {"chunks", configuration.chunks.size()},
                                                 {"samples", samples_of(configuration)}};
  }
  return orders.dump();
}

void FillDesk::obey(const std::string& text) {
  const json orders = json::parse(text);
  const auto mine = orders.find(std::to_string(ranks_.rank));
  if (mine == orders.end()) return;
  if (mine->is_null()) {
    fill_.worker().drop();
    job_.reset();
    return;
  }
  job_ = (*mine)["job"].get<std::int64_t>();
  told_ = fill_.figures().chunks;
  fill_.worker().assign((*mine)["directory"], (*mine)["configuration"]);
  trace_.name_job({.job = job(),
                   .name = (*mine)["name"],
                   .kind = (*mine)["kind"],
                   .configuration = (*mine)["configuration"],
                   .chunks = (*mine)["chunks"],
                   .samples = (*mine)["samples"]});
}

}  // namespace pipefill
