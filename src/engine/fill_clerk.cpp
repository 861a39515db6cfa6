#include "engine/fill_clerk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/recurring_trouble.hpp"
#include "base/text.hpp"
#include "fill_jobs/kind.hpp"
#include "worker/job_directory.hpp"
#include "worker/job_plan.hpp"
#include "worker/job_state.hpp"
#include "worker/planner.hpp"

namespace pipefill {
namespace {

namespace fs = std::filesystem;

/// What plan.json says, priced.
std::vector<FillConfiguration> configurations_of(const std::vector<JobPlanConfiguration>& plan,
                                                 const MachineRate& rate) {
  std::vector<FillConfiguration> configurations;
  for (const JobPlanConfiguration& planned : plan) {
    FillConfiguration& configuration = configurations.emplace_back();
    configuration.name = planned.name;
    configuration.resident = planned.state;
    for (const JobPlanRun& run : planned.runs)
      configuration.append({run.count, run.cost_class, run.memory, run.samples}, run.flops, run.bytes, rate);
  }
  return configurations;
}

bool is_over(JobStatus status) {
  return status == JobStatus::finished || status == JobStatus::failed || status == JobStatus::quarantined ||
         status == JobStatus::cancelled;
}

}  // namespace

enum class FillClerk::Place { planning, waiting, running, over };

struct FillClerk::Known {
  ClerkJob job;
  Place place = Place::planning;
};

FillClerk::FillClerk(FillClerkSettings settings, Log log)
    : settings_(std::move(settings)), log_(std::move(log)), queue_(settings_.run_directory, kind_names()) {
  for (const std::string& file : settings_.deck_jobs) {
    const std::string text = read_file(file, kMaxJobFile);
    const FillJobSpec spec = parse_fill_job(text, file, kind_names());
    if (queue_.is_known(spec.name)) continue;  // submitted by an earlier start of this run
    queue_.submit(text, file, fs::absolute(file).parent_path().string());
  }
  has_jobs_ = !queue_.scan().empty();
  thread_ = std::thread([this] { run(); });
}

FillClerk::~FillClerk() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FillClerk::run() {
  RecurringTrouble trouble("the queue of fill jobs", "no job is taken from it until that is over; the run goes on");
  for (;;) {
    try {
      look();
      trouble.went_well(log_);
    } catch (const std::exception& error) {
      trouble.failed(log_, error.what());
    }
    std::unique_lock lock(mutex_);
    looked_ = true;
    changed_.notify_all();
    if (changed_.wait_for(lock, settings_.look_every, [this] { return ends_; })) return;
  }
}

/// The queue is this thread's alone: the main thread leaves its wishes in known_.
void FillClerk::look() {
  const std::vector<QueueEntry> entries = queue_.scan();
  for (const QueueEntry& entry : entries) {
    bool is_new = false, over = false;
    {
      const std::lock_guard lock(mutex_);
      const auto [at, inserted] = known_.try_emplace(entry.number);
      is_new = inserted;
      Known& known = at->second;
      if (entry.cancelled && !known.job.cancelled) known.job.cancelled = news_ = true;
      over = known.place == Place::over || (known.job.cancelled && known.place != Place::running);
      if (over) known.place = Place::over;
    }
    if (is_new && !over) plan(entry);
    if (over) retire(entry);
  }
}

void FillClerk::retire(const QueueEntry& entry) {
  const std::string path = queue_.job_directory(entry);
  if (entry.cancelled && fs::exists(path + "/state.json")) {
    const JobDirectory directory = JobDirectory::open(path);
    std::optional<JobLock> lock;
    try {
      lock.emplace(JobLock::take(directory));
    } catch (const FileError&) {
      return;  // its worker is letting go of it: at the next look
    }
    JobState state = directory.read_state();
    if (!is_over(state.status)) state.status = JobStatus::cancelled, directory.write_state(state);
  }
  queue_.remove(entry.number);
}

void FillClerk::plan(const QueueEntry& entry) {
  const std::string path = queue_.job_directory(entry);
  const auto settle = [&](Place place, ClerkJob job) {
    const std::lock_guard lock(mutex_);
    job.cancelled = known_[entry.number].job.cancelled;
    known_[entry.number] = {std::move(job), place};
    news_ = true;
    changed_.notify_all();
  };
  ClerkJob job;
  job.directory = path;
  job.info.id = entry.number;
  job.info.name = entry.name;
  job.info.kind = entry.spec.kind;
  job.info.owner = entry.spec.owner;
  job.info.priority = entry.spec.priority;
  job.info.arrival = now();
  if (entry.spec.deadline) job.info.deadline = job.info.arrival + *entry.spec.deadline;
  try {
    if (!fs::exists(path + "/state.json")) {
      JobState first;
      first.name = entry.name, first.kind = entry.spec.kind, first.owner = entry.spec.owner;
      first.base_directory = entry.base_directory;
      JobDirectory::create(path, entry.job_text, first);
    }
    queue_.take(entry.number);
    const JobState state = JobDirectory::open(path).read_state();
    if (is_over(state.status)) return settle(Place::over, job);
    if (!fs::exists(path + "/plan.json")) {
      const std::string trouble = plan_in_process(settings_.planner, path);
      if (!trouble.empty()) {
        fail_job(path, trouble);
        log_->warn("fill job {} failed: {}", entry.name, trouble);
        return settle(Place::over, job);
      }
    }
    job.info.configurations = configurations_of(read_job_plan(path + "/plan.json"), settings_.rate);
    for (std::size_t c = 0; c < job.info.configurations.size(); ++c) {
      const std::string& wanted = state.configuration.empty() ? entry.spec.configuration : state.configuration;
      if (job.info.configurations[c].name == wanted) job.info.pinned = static_cast<int>(c);
    }
    job.info.progress.reached(read_done(path + "/state.bin"));
    settle(Place::waiting, job);
  } catch (const Error& error) {
    log_->warn("fill job {}: {}", entry.name, error.what());
    settle(Place::over, job);
  }
}

bool FillClerk::take_news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, false);
}

void FillClerk::wait_for_plans(Nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] {
    return looked_ && std::ranges::none_of(known_, [](const auto& k) { return k.second.place == Place::planning; });
  });
}

std::vector<ClerkJob> FillClerk::waiting() {
  const std::lock_guard lock(mutex_);
  std::vector<ClerkJob> jobs;
  for (const auto& [number, known] : known_)
    if (known.place == Place::waiting && !known.job.cancelled) jobs.push_back(known.job);
  return jobs;
}

std::optional<ClerkJob> FillClerk::find(std::int64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(number);
  return found == known_.end() ? std::nullopt : std::optional(found->second.job);
}

void FillClerk::hand_out(const FillDecision& decision, std::int64_t step, int rank) {
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    Known& known = known_[decision.job];
    known.place = Place::running;
    known.job.info.pinned = decision.configuration;
    line = nlohmann::json{{"step", step},
                          {"job", known.job.info.name},
                          {"rank", rank},
                          {"configuration",
                           known.job.info.configurations[static_cast<std::size_t>(decision.configuration)].name},
                          {"score", decision.score},
                          {"expected_s", to_seconds(decision.expected)},
                          {"reason", decision.reason}}
               .dump();
  }
  const std::string path = settings_.run_directory + "/fill/decisions.jsonl";
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  line += '\n';
  if (file.get() < 0 || ::write(file.get(), line.data(), line.size()) != std::ssize(line))
    log_->warn("{}: cannot write; the decision was: {}", path, line);
}

void FillClerk::note(const JobOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  Known& known = known_[outcome.job];
  FillJobInfo& info = known.job.info;
  info.progress.reached(outcome.done);
  for (const auto& [cost_class, time] : outcome.times) {
    std::vector<ChunkTime>& times = info.configurations[static_cast<std::size_t>(info.pinned.value_or(0))].times;
    if (cost_class >= 0 && cost_class < std::ssize(times)) times[static_cast<std::size_t>(cost_class)].measured(time);
  }
  owner_time_[info.owner] += outcome.fill_time;
  if (outcome.state == OutcomeState::over) known.place = Place::over;
}

std::map<std::string, Nanoseconds> FillClerk::owner_time() {
  const std::lock_guard lock(mutex_);
  return owner_time_;
}

std::string FillClerk::progress() {
  const std::lock_guard lock(mutex_);
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [number, known] : known_)
    all[known.job.info.name] = {{"done", known.job.info.progress.done()}, {"over", known.place == Place::over}};
  return all.dump();
}

}  // namespace pipefill
