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
#include "worker/job_parts.hpp"
#include "worker/job_plan.hpp"
#include "worker/job_state.hpp"
#include "worker/planner.hpp"

namespace pipefill {
namespace {

namespace fs = std::filesystem;

bool is_over(JobStatus status) {
  return status == JobStatus::finished || status == JobStatus::failed || status == JobStatus::quarantined ||
         status == JobStatus::cancelled;
}

/// Number of a job's part: a number of a job is smaller.
std::int64_t part_number(std::int64_t job, std::int64_t shard) { return job + ((shard + 1) << 20); }
constexpr std::int64_t kMostParts = 64;

/// Costs that nobody has measured are predicted with this.
constexpr MachineRate kUnmeasuredRate{};

}  // namespace

enum class FillClerk::Place { planning, waiting, running, to_divide, divided, over };

struct FillClerk::Known {
  ClerkJob job;
  Place place = Place::planning;
  std::int64_t whole = 0;  ///< number of the job that this is a part of
  std::int64_t shards = 1;
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
  const auto guarded = [&](const auto& work) {
    try {
      work();
      trouble.went_well(log_);
    } catch (const std::exception& error) {
      trouble.failed(log_, error.what());
    }
  };
  std::unique_lock lock(mutex_);
  for (;;) {
    wakes_ = false;
    lock.unlock();
    guarded([this] { look(); });
    lock.lock();
    looked_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, settings_.look_every, [this] { return ends_ || wakes_; });
    if (!ends_) continue;
    lock.unlock();
    return guarded([this] { join_parts(); });  // of jobs that ended with the run
  }
}

/// The queue is this thread's alone: the main thread leaves its wishes in known_.
void FillClerk::look() {
  const std::vector<QueueEntry> entries = queue_.scan();
  for (const QueueEntry& entry : entries) {
    bool is_new = false, to_divide = false;
    {
      const std::lock_guard lock(mutex_);
      const auto [at, inserted] = known_.try_emplace(entry.number);
      is_new = inserted;
      to_divide = at->second.place == Place::to_divide && !entry.cancelled;
    }
    if (entry.cancelled) cancel(entry.number);
    if (is_new && !entry.cancelled) plan(entry);
    if (to_divide) make_parts(entry);
  }
  join_parts();
  for (const QueueEntry& entry : entries) {
    bool over = false;
    {
      const std::lock_guard lock(mutex_);
      over = known_.at(entry.number).place == Place::over;
    }
    if (over) retire(entry);
  }
}

/// Nobody gets the job any more; it is over when nobody has it.
void FillClerk::cancel(std::int64_t number) {
  const std::lock_guard lock(mutex_);
  bool runs = false;
  for (auto& [each, known] : known_) {
    if (each != number && known.whole != number) continue;
    if (!known.job.cancelled) known.job.cancelled = news_ = true;
    runs |= known.place == Place::running;
  }
  if (!runs) known_.at(number).place = Place::over;
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

void FillClerk::settle(std::int64_t number, Known known) {
  const std::lock_guard lock(mutex_);
  known.job.cancelled = known_[number].job.cancelled;
  known_[number] = std::move(known);
  news_ = true;
  changed_.notify_all();
}

FillClerk::Known FillClerk::prepare(const QueueEntry& entry, const std::string& path, std::int64_t number,
                                    const std::string& name) {
  ClerkJob job;
  job.directory = path;
  job.info.id = number;
  job.info.name = name;
  job.info.kind = entry.spec.kind;
  job.info.owner = entry.spec.owner;
  job.info.priority = entry.spec.priority;
  job.info.arrival = now();
  if (entry.spec.deadline) job.info.deadline = job.info.arrival + *entry.spec.deadline;
  try {
    const JobState state = JobDirectory::open(path).read_state();
    if (is_over(state.status)) return {job, Place::over};
    if (!fs::exists(path + "/plan.json")) {
      const std::string trouble = run_on_job(settings_.planner, path, "planning");
      if (!trouble.empty()) {
        fail_job(path, trouble);
        log_->warn("fill job {} failed: {}", name, trouble);
        return {job, Place::over};
      }
    }
    const JobPlan plan = read_job_plan(path + "/plan.json");
    job.info.configurations = configurations_of(plan, kUnmeasuredRate);
    for (std::size_t c = 0; c < job.info.configurations.size(); ++c) {
      const std::string& wanted = state.configuration.empty() ? entry.spec.configuration : state.configuration;
      if (job.info.configurations[c].name == wanted) job.info.pinned = static_cast<int>(c);
    }
    job.info.progress.reached(read_done(path + "/state.bin"));
    if (plan.divisible == Divisible::yes && state.shards == 1)
      job.info.most_shards = std::min(entry.spec.shards, kMostParts);
    return {job, Place::waiting};
  } catch (const Error& error) {
    log_->warn("fill job {}: {}", name, error.what());
    return {job, Place::over};
  }
}

void FillClerk::plan(const QueueEntry& entry) {
  const std::string path = queue_.job_directory(entry);
  try {
    if (!fs::exists(path + "/state.json")) {
      JobState first;
      first.name = entry.name, first.kind = entry.spec.kind, first.owner = entry.spec.owner;
      first.base_directory = entry.base_directory;
      JobDirectory::create(path, entry.job_text, first);
    }
    queue_.take(entry.number);
    const JobState state = JobDirectory::open(path).read_state();
    if (state.shard == kDivided && !is_over(state.status)) return make_parts(entry);
  } catch (const Error& error) {
    log_->warn("fill job {}: {}", entry.name, error.what());
    Known lost;
    lost.place = Place::over;
    settle(entry.number, std::move(lost));
    return;
  }
  settle(entry.number, prepare(entry, path, entry.number, entry.name));
}

void FillClerk::divide(const FillDecision& decision) {
  {
    const std::lock_guard lock(mutex_);
    Known& known = known_[decision.job];
    known.place = Place::to_divide;
    known.shards = decision.shards;
    known.job.info.pinned = decision.configuration;
    wakes_ = true;
  }
  changed_.notify_all();
}

/// Of a job that is to be divided, or that an earlier start has divided.
void FillClerk::make_parts(const QueueEntry& entry) {
  const std::string path = queue_.job_directory(entry);
  const JobDirectory whole = JobDirectory::open(path);
  Known known;
  {
    const std::lock_guard lock(mutex_);
    known = known_[entry.number];
  }
  if (known.place == Place::to_divide) {
    const auto pinned = static_cast<std::size_t>(known.job.info.pinned.value_or(0));
    divide_job(whole, known.shards, known.job.info.configurations.at(pinned).name);
  }
  known.job.directory = path;
  known.job.info.id = entry.number, known.job.info.name = entry.name;
  known.place = Place::divided;
  known.shards = whole.read_state().shards;
  std::vector<Known> parts;
  for (std::int64_t shard = 0; shard < known.shards; ++shard) {
    parts.push_back(prepare(entry, part_directory(path, shard), part_number(entry.number, shard),
                            fmt::format("{} part {} of {}", entry.name, shard + 1, known.shards)));
    parts.back().whole = entry.number;
    parts.back().job.cancelled = entry.cancelled;
  }
  for (std::int64_t shard = 0; shard < known.shards; ++shard)
    settle(part_number(entry.number, shard), parts[static_cast<std::size_t>(shard)]);
  settle(entry.number, known);
}

/// Of all jobs whose parts are over by now.
void FillClerk::join_parts() {
  for (const QueueEntry& entry : queue_.scan()) {
    {
      const std::lock_guard lock(mutex_);
      const auto whole = known_.find(entry.number);
      if (whole == known_.end() || whole->second.place != Place::divided || whole->second.job.cancelled) continue;
      if (std::ranges::any_of(known_, [&](const auto& known) {
            return known.second.whole == entry.number && known.second.place != Place::over;
          }))
        continue;
    }
    if (!join(entry)) continue;
    const std::lock_guard lock(mutex_);
    known_[entry.number].place = Place::over;
  }
}

/// False: a worker has not let go of its part yet.
bool FillClerk::join(const QueueEntry& entry) {
  const std::string path = queue_.job_directory(entry);
  const JobDirectory whole = JobDirectory::open(path);
  std::string trouble;
  JobStatus status = JobStatus::failed;
  try {
    for (const JobState& part : part_states(whole)) {
      if (!is_over(part.status)) return false;
      if (part.status == JobStatus::finished || !trouble.empty()) continue;
      trouble = fmt::format("part {} of {}: {}", part.shard + 1, part.shards, part.message);
      status = part.status;
    }
  } catch (const Error& error) {
    trouble = error.what();
  }
  if (trouble.empty()) trouble = run_on_job(settings_.joiner, path, "joining the parts");
  if (trouble.empty()) return true;
  log_->warn("fill job {} {}: {}", entry.name, status_name(status), trouble);
  JobState state = whole.read_state();
  state.status = status, state.message = trouble;
  whole.write_state(state);
  return true;
}

bool FillClerk::take_news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, false);
}

void FillClerk::wait_for_plans(Nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] {
    return looked_ && std::ranges::none_of(known_, [](const auto& k) {
             return k.second.place == Place::planning || k.second.place == Place::to_divide;
           });
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
  if (outcome.state != OutcomeState::over) return;
  known.place = Place::over;
  wakes_ = known.whole != 0;  // perhaps it was the last part
  changed_.notify_all();
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
