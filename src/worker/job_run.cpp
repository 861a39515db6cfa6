#include "worker/job_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "fill_jobs/command.hpp"
#include "fill_jobs/plugin.hpp"
#include "worker/job_parts.hpp"
#include "worker/job_plan.hpp"

namespace pipefill {
namespace {

constexpr std::int64_t kChunksAhead = 256;
constexpr std::int64_t kMaxChunks = std::int64_t{1} << 40;
constexpr std::size_t kMaxPlanRuns = 100'000;
constexpr int kMaxConfigurations = 4096;

std::string text_of(const pipefill_fill_error& error) {
  const std::string text(error.text, ::strnlen(error.text, sizeof error.text));
  return text.empty() ? "gave no reason" : text;
}

void check(const pipefill_fill_kind& kind, const char* what, std::int32_t result, const pipefill_fill_error& error) {
  if (result == PIPEFILL_FILL_OK) return;
  throw KindError(result, fmt::format("{}: cannot {}: {}", kind.name, what, text_of(error)));
}

std::string name_of(const pipefill_fill_configuration& configuration) {
  return {configuration.name, ::strnlen(configuration.name, sizeof configuration.name)};
}

/// The library named by `with.library`, and the other parameters left for the kind.
const pipefill_fill_kind* plugin_of(FillJobSpec& spec, const std::string& base_directory) {
  std::string library;
  std::erase_if(spec.parameters, [&](const auto& parameter) {
    if (parameter.first != "library") return false;
    library = parameter.second;
    return true;
  });
  if (library.empty()) throw DeckError("with.library: is missing; a plug-in job names its shared library there");
  return load_plugin(library, base_directory);
}

}  // namespace

JobRun JobRun::load(const std::string& path, const std::string& configuration, int threads, FindKind find_kind) {
  JobDirectory directory = JobDirectory::open(path);
  JobLock lock = JobLock::take(directory);
  JobRun run(std::move(directory), std::move(lock));
  run.state_ = run.directory_.read_state();
  run.spec_ = run.directory_.read_spec({});
  if (run.state_.shard == kDivided) throw DeckError("the job is divided; its parts run, not it");
  if (run.state_.status != JobStatus::submitted && run.state_.status != JobStatus::running)
    throw DeckError(fmt::format("the job is {} and does not run again", status_name(run.state_.status)));
  run.create(threads, find_kind);
  run.choose(configuration);
  pipefill_fill_error error{};
  check(*run.kind_, "restore the job",
        run.kind_->restore(run.job_.get(), run.configuration_index_, run.state_file_->state(), run.done(), &error),
        error);
  run.write_state(JobStatus::running);
  return run;
}

/// As create() of its kind wants it; points into the run.
struct JobRun::Setup {
  std::string shared_directory;
  std::vector<pipefill_fill_parameter> parameters;
  pipefill_fill_setup setup{};
};

JobRun::Setup JobRun::prepare(int threads, FindKind find_kind) {
  if (state_.threads > 0) threads = state_.threads;
  state_.threads = threads;
  kind_ = spec_.kind == "plugin" ? plugin_of(spec_, state_.base_directory) : find_kind(spec_.kind);
  if (kind_ == nullptr) throw DeckError(fmt::format("unknown kind '{}'", spec_.kind));
  check_kind(kind_, spec_.kind);
  Setup made;
  const bool part = state_.shards > 1 && state_.shard != kDivided;
  made.shared_directory = part ? whole_of(directory_.path()) : directory_.path();
  for (const auto& [name, value] : spec_.parameters) made.parameters.push_back({name.c_str(), value.c_str()});
  made.setup = {.struct_bytes = sizeof(pipefill_fill_setup),
                .name = spec_.name.c_str(),
                .directory = directory_.path().c_str(),
                .base_directory = state_.base_directory.c_str(),
                .parameters = made.parameters.data(),
                .parameter_count = made.parameters.size(),
                .seed = spec_.seed,
                .threads = threads,
                .shard = part ? state_.shard : 0,
                .shards = part ? state_.shards : 1,
                .memory_limit = spec_.limits.memory.count,
                .shared_directory = nullptr};
  return made;
}

void JobRun::create(int threads, FindKind find_kind) {
  Setup made = prepare(threads, find_kind);
  made.setup.shared_directory = made.shared_directory.c_str();
  pipefill_fill_job* job = nullptr;
  pipefill_fill_error error{};
  check(*kind_, "make the job", kind_->create(&made.setup, &job, &error), error);
  job_ = {job, Destroy{kind_}};
}

void JobRun::plan(const std::string& path, FindKind find_kind) {
  JobDirectory directory = JobDirectory::open(path);
  JobLock lock = JobLock::take(directory);
  JobRun run(std::move(directory), std::move(lock));
  run.state_ = run.directory_.read_state();
  run.spec_ = run.directory_.read_spec({});
  run.create(1, find_kind);
  run.write_plan(run.offered());
}

void JobRun::merge(const std::string& path, FindKind find_kind) {
  JobDirectory directory = JobDirectory::open(path);
  JobLock lock = JobLock::take(directory);
  JobRun run(std::move(directory), std::move(lock));
  run.state_ = run.directory_.read_state();
  run.spec_ = run.directory_.read_spec({});
  if (run.state_.shard != kDivided) throw DeckError("the job is not divided");
  const std::vector<JobState> parts = finished_parts(run.directory_);
  Setup made = run.prepare(parts.front().threads, find_kind);
  made.setup.shared_directory = made.shared_directory.c_str();
  if (!can_divide(*run.kind_)) throw DeckError(fmt::format("{}: cannot join the parts of a job", run.kind_->name));
  std::vector<std::string> names;
  for (std::int64_t shard = 0; shard < run.state_.shards; ++shard) names.push_back(part_directory(path, shard));
  std::vector<const char*> at;
  for (const std::string& name : names) at.push_back(name.c_str());
  pipefill_fill_error error{};
  check(*run.kind_, "join the parts of the job",
        run.kind_->merge(&made.setup, run.state_.configuration.c_str(), at.data(), run.state_.shards, &error), error);
  finish_divided(run.directory_, parts);
}

std::vector<pipefill_fill_configuration> JobRun::offered() {
  std::int32_t count = 0;
  pipefill_fill_error error{};
  std::vector<pipefill_fill_configuration> offered;
  const auto list = [&] {
    check(*kind_, "list its configurations",
          kind_->configurations(job_.get(), offered.data(), static_cast<std::int32_t>(offered.size()), &count, &error),
          error);
    if (count < 1 || count > kMaxConfigurations)
      throw DeckError(fmt::format("{}: offers {} configurations", kind_->name, count));
  };
  list();
  offered.resize(static_cast<std::size_t>(count));
  list();
  return offered;
}

void JobRun::choose(const std::string& wanted) {
  const std::vector<pipefill_fill_configuration> offered = this->offered();
  std::string name = wanted == "auto" ? "" : wanted;
  if (name.empty()) name = spec_.configuration;
  if (!state_.configuration.empty()) name = state_.configuration;
  const auto fits = [this](const pipefill_fill_configuration& c) {
    return spec_.limits.memory.count == 0 || c.state_bytes + c.memory_bytes <= spec_.limits.memory.count;
  };
  const auto chosen = name.empty() ? std::ranges::find_if(offered, fits) : std::ranges::find(offered, name, name_of);
  if (chosen == offered.end() && name.empty())
    throw DeckError(fmt::format("limits.memory: no configuration of the job needs as little as {} bytes",
                                spec_.limits.memory.count));
  if (chosen == offered.end()) {
    std::vector<std::string> names;
    std::ranges::transform(offered, std::back_inserter(names), name_of);
    throw DeckError(fmt::format("configuration: there is no '{}'; the job offers {}", name, fmt::join(names, ", ")));
  }
  configuration_ = *chosen;
  configuration_index_ = static_cast<int>(chosen - offered.begin());
  if (configuration_.chunks < 0 || configuration_.chunks > kMaxChunks)
    throw DeckError(fmt::format("{}: offers a configuration of {} chunks", kind_->name, configuration_.chunks));
  state_.configuration = name_of(configuration_);
  if (!std::filesystem::exists(directory_.file("plan.json"))) write_plan(offered);
  state_file_ = std::make_unique<JobStateFile>(
      JobStateFile::open(directory_.file("state.bin"),
                         {kind_->name, state_.configuration, configuration_.chunks, configuration_.state_bytes}));
}

void JobRun::write_plan(const std::vector<pipefill_fill_configuration>& offered) {
  JobPlan plan;
  plan.divisible = can_divide(*kind_) ? Divisible::yes : Divisible::no;
  std::vector<pipefill_fill_chunk> chunks(4096);
  pipefill_fill_error error{};
  for (std::size_t c = 0; c < offered.size(); ++c) {
    JobPlanConfiguration& configuration = plan.configurations.emplace_back();
    configuration = {name_of(offered[c]), Bytes{offered[c].state_bytes}, static_cast<double>(offered[c].samples), {}};
    std::vector<JobPlanRun>& runs = configuration.runs;
    for (std::int64_t first = 0; first < offered[c].chunks && runs.size() < kMaxPlanRuns;) {
      const std::int64_t count = std::min(offered[c].chunks - first, static_cast<std::int64_t>(chunks.size()));
      check(*kind_, "plan its chunks",
            kind_->plan(job_.get(), static_cast<std::int32_t>(c), first, count, chunks.data(), &error), error);
      for (std::int64_t i = 0; i < count; ++i) {
        const pipefill_fill_chunk& k = chunks[static_cast<std::size_t>(i)];
        JobPlanRun run{1, k.cost_class, k.flops, k.bytes, Bytes{k.memory_bytes}, k.samples};
        if (!runs.empty()) run.count = runs.back().count;
        if (!runs.empty() && runs.back() == run)
          ++runs.back().count;
        else
          run.count = 1, runs.push_back(run);
      }
      first += count;
    }
  }
  write_job_plan(directory_.file("plan.json"), plan);
}

bool JobRun::is_command() const { return kind_ == command_kind(); }

const pipefill_fill_chunk& JobRun::next() {
  const std::int64_t at = done();
  if (at < ahead_first_ || at >= ahead_first_ + static_cast<std::int64_t>(ahead_.size())) {
    ahead_.resize(static_cast<std::size_t>(std::min(kChunksAhead, chunks() - at)));
    ahead_first_ = at;
    pipefill_fill_error error{};
    check(*kind_, "plan its chunks",
          kind_->plan(job_.get(), configuration_index_, at, static_cast<std::int64_t>(ahead_.size()), ahead_.data(),
                      &error),
          error);
  }
  return ahead_[static_cast<std::size_t>(at - ahead_first_)];
}

std::int32_t JobRun::run(const pipefill_fill_grant& grant) {
  pipefill_fill_error error{};
  const std::int32_t result = kind_->run(job_.get(), done(), &grant, &error);
  if (result != PIPEFILL_FILL_INTERRUPTED) check(*kind_, fmt::format("run chunk {}", done()).c_str(), result, error);
  return result;
}

void JobRun::count_done(Nanoseconds cpu, Nanoseconds chunk) {
  state_file_->set_done(done() + 1);
  state_file_->add_times(cpu, chunk);
}

void JobRun::save() {
  pipefill_fill_error error{};
  check(*kind_, "save", kind_->save(job_.get(), done(), &error), error);
  state_file_->sync();
}

void JobRun::write_state(JobStatus status) {
  state_.status = status;
  state_.chunks = chunks();
  state_.done = done();
  state_.samples = static_cast<double>(configuration_.samples);
  state_.cpu_time = state_file_->cpu_time();
  state_.chunk_time = state_file_->chunk_time();
  directory_.write_state(state_);
}

}  // namespace pipefill
