#include "planned_fill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "engine/fill_session.hpp"
#include "fill/policy.hpp"
#include "fill_jobs/kind.hpp"
#include "schedule/text.hpp"
#include "storage/atomic_file.hpp"
#include "worker/job_directory.hpp"
#include "worker/job_plan.hpp"
#include "worker/planner.hpp"

namespace pipefill {
namespace {

namespace fs = std::filesystem;

FillJobInfo plan_job_file(const std::string& file, std::int64_t number, const std::string& scratch,
                          std::string& trouble) {
  const std::string text = read_file(file, kMaxJobFile);
  const FillJobSpec spec = parse_fill_job(text, file, kind_names());
  FillJobInfo info;
  info.id = number, info.name = spec.name, info.kind = spec.kind, info.owner = spec.owner;
  info.priority = spec.priority;
  info.deadline = spec.deadline;
  JobState state;
  state.name = spec.name, state.kind = spec.kind;
  state.base_directory = fs::absolute(file).parent_path().string();
  const std::string path = fmt::format("{}/{}", scratch, number);
  JobDirectory::create(path, text, state);
  trouble = run_on_job({"/proc/self/exe", "fill-planner"}, path, "planning");
  if (!trouble.empty()) return info;
  info.configurations = configurations_of(read_job_plan(path + "/plan.json"), {kNominalRate, kNominalRate});
  for (std::size_t c = 0; c < info.configurations.size(); ++c)
    if (info.configurations[c].name == spec.configuration) info.pinned = static_cast<int>(c);
  return info;
}

/// The part of a bubble's row that names the chunks: "score batch=2: 0 to 17, score-b batch=1: 4".
std::string chunks_text(const PlannedBubble& bubble, const std::vector<const FillJobInfo*>& jobs) {
  std::string text;
  for (const PlannedChunks& run : bubble.runs) {
    const FillJobInfo& job = **std::ranges::find(jobs, run.job, &FillJobInfo::id);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", job.name, run.first);
    if (run.count > 1) text += fmt::format(" to {}", run.first + run.count - 1);
  }
  return text.empty() ? "-" : text;
}

}  // namespace

PlannedFill predict_fill(const RunConfig& config, const PlannedRun& run) {
  PlannedFill fill;
  const TemporaryDirectory scratch;
  for (const std::string& file : config.fill.jobs) {
    std::string trouble;
    const auto number = static_cast<std::int64_t>(fill.jobs.size() + fill.troubles.size());
    FillJobInfo job = plan_job_file(file, number, scratch.path(), trouble);
    if (trouble.empty())
      fill.jobs.push_back(std::move(job));
    else
      fill.troubles.push_back(fmt::format("{} will fail: {}", job.name, trouble));
  }
  const FillSettings settings = fill_settings(config, run.plan, WaitMethod::spin, 1);
  const bool pipefill = config.fill.strategy == FillStrategy::pipefill;
  const PlanSettings plan{.guard = {}, .fill_fraction = pipefill ? config.fill.fraction : 1};

  std::vector<FillExecutor> executors;
  for (std::size_t stage = 0; stage < run.timeline.stages.size(); ++stage) {
    const StageTimeline& timeline = run.timeline.stages[stage];
    FillExecutor executor;
    executor.stage = static_cast<int>(stage);
    executor.cycle = priced_cycle(timeline, run.limit - timeline.peak_memory);
    executor.step_time = run.timeline.makespan;
    executor.room = static_cast<int>(settings.desk.most_jobs);
    fill.stages.push_back({executor.cycle, {}, {}});
    executors.push_back(std::move(executor));
  }
  std::vector<const FillJobInfo*> queue;
  for (const FillJobInfo& job : fill.jobs) queue.push_back(&job);
  for (const FillDecision& decision : assign_jobs(queue, executors, {}, plan, settings.desk.policy, Nanoseconds{0}))
    fill.stages[static_cast<std::size_t>(decision.executor)].jobs.push_back(
        *std::ranges::find(queue, decision.job, &FillJobInfo::id));
  for (PlannedFillStage& stage : fill.stages)
    stage.plan = pipefill && !stage.jobs.empty() ? plan_pipefill(*stage.jobs.front(), stage.cycle, plan)
                                                 : plan_shared(stage.jobs, stage.cycle, plan);
  return fill;
}

std::vector<DrawnWork> drawn_work(const PlannedFill& fill, const PlannedRun& run) {
  std::vector<DrawnWork> drawn;
  for (std::size_t s = 0; s < fill.stages.size(); ++s) {
    const std::vector<DrawnWork> more =
        drawn_plan(fill.stages[s].plan, fill.stages[s].jobs, static_cast<int>(s), run.timeline.stages[s]);
    drawn.insert(drawn.end(), more.begin(), more.end());
  }
  return drawn;
}

std::string fill_lines(const PlannedFill& fill, const PlannedRun& run, const RunConfig& config) {
  std::string text = fmt::format("fill plan of the first step, strategy {}, chunks at the same nominal rate:\n",
                                 strategy_name(config.fill.strategy));
  for (const std::string& trouble : fill.troubles) text += "warning: fill job " + trouble + "\n";
  text += fmt::format("{:<5} {:>4} {:<13} {:>10} {:>6}  {}\n", "stage", "slot", "class", "bubble", "used", "chunks");
  Nanoseconds used{0};
  for (std::size_t s = 0; s < fill.stages.size(); ++s) {
    const PlannedFillStage& stage = fill.stages[s];
    for (std::size_t i = 0; i < stage.cycle.size(); ++i) {
      const BubbleBudget& bubble = stage.cycle[i];
      const PlannedBubble& planned = stage.plan.bubbles[i];
      used += planned.used();
      text += fmt::format("{:<5} {:>4} {:<13} {:>10} {:>5.1f}%  {}\n", s, bubble.position, to_text(bubble.why),
                          format_duration(bubble.length), 100 * to_seconds(planned.used()) / to_seconds(bubble.length),
                          chunks_text(planned, stage.jobs));
    }
  }
  std::string waiting;
  for (const FillJobInfo& job : fill.jobs)
    if (std::ranges::none_of(fill.stages, [&](const PlannedFillStage& stage) {
          return std::ranges::find(stage.jobs, &job) != stage.jobs.end();
        }))
      waiting += fmt::format("{}{}", waiting.empty() ? "" : ", ", job.name);
  if (!waiting.empty()) text += "waiting for a stage, or too large for every bubble: " + waiting + "\n";
  Nanoseconds idle{0};
  for (const StageTimeline& stage : run.timeline.stages) idle += stage.idle;
  return text + fmt::format("conversion to expect at best  {:.4f}  time of these chunks / bubble time\n",
                            idle == Nanoseconds{0} ? 0 : to_seconds(used) / to_seconds(idle));
}

}  // namespace pipefill
