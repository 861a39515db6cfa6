#include "worker/job_parts.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.hpp"

namespace pipefill {

namespace fs = std::filesystem;

std::string part_directory(const std::string& whole, std::int64_t shard) {
  return fmt::format("{}/part-{}", whole, shard);
}

std::string whole_of(const std::string& part) { return fs::path(part).parent_path().string(); }

void divide_job(const JobDirectory& whole, std::int64_t shards, const std::string& configuration) {
  JobState state = whole.read_state();
  const std::string text = read_file(whole.file("job.yaml"), kMaxJobFile);
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const std::string path = part_directory(whole.path(), shard);
    if (fs::exists(path + "/state.json")) continue;
    fs::remove_all(path);  // half made by a start that was killed
    JobState part = state;
    part.status = JobStatus::submitted;
    part.shard = shard, part.shards = shards;
    part.configuration = configuration;
    JobDirectory::create(path, text, part);
  }
  state.status = JobStatus::running;
  state.shard = kDivided, state.shards = shards;
  state.configuration = configuration;
  whole.write_state(state);
}

std::vector<JobState> part_states(const JobDirectory& whole) {
  std::vector<JobState> states;
  const std::int64_t shards = whole.read_state().shards;
  for (std::int64_t shard = 0; shard < shards; ++shard)
    states.push_back(JobDirectory::open(part_directory(whole.path(), shard)).read_state());
  return states;
}

std::vector<JobState> finished_parts(const JobDirectory& whole) {
  std::vector<JobState> states = part_states(whole);
  for (const JobState& part : states)
    if (part.status != JobStatus::finished)
      throw DeckError(fmt::format("part {} of {} is {}", part.shard + 1, part.shards, status_name(part.status)));
  return states;
}

void finish_divided(const JobDirectory& whole, const std::vector<JobState>& parts) {
  JobState state = whole.read_state();
  state.status = JobStatus::finished;
  state.chunks = state.done = 0;
  for (const JobState& part : parts) {
    state.chunks += part.chunks, state.done += part.done, state.samples += part.samples;
    state.cpu_time += part.cpu_time, state.chunk_time += part.chunk_time;
    state.threads = part.threads;
  }
  whole.write_state(state);
  std::error_code ignored;
  for (const JobState& part : parts) fs::remove_all(part_directory(whole.path(), part.shard), ignored);
}

}  // namespace pipefill
