#include "job_host.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/temporary_directory.hpp"

namespace pipefill::testing {

namespace {

/// As a host hands it to a kind; points into `text` and `directory`.
struct JobSetup {
  JobSetup(const JobText& text, const std::string& directory) {
    for (const auto& [name, value] : text.with) parameters.push_back({name.c_str(), value.c_str()});
    setup.struct_bytes = sizeof setup;
    setup.name = "job";
    setup.directory = setup.base_directory = setup.shared_directory = directory.c_str();
    setup.parameters = parameters.data();
    setup.parameter_count = parameters.size();
    setup.seed = text.seed;
    setup.threads = text.threads;
    setup.shard = text.shard;
    setup.shards = text.shards;
  }
  std::vector<pipefill_fill_parameter> parameters;
  pipefill_fill_setup setup{};
};

}  // namespace

HostedJob::HostedJob(const JobText& text, const std::string& directory) : kind_(*text.kind) {
  const JobSetup setup(text, directory);
  check(kind_.create(&setup.setup, &job_, &error_));
}

HostedJob::~HostedJob() {
  if (job_ != nullptr) kind_.destroy(job_);
}

void HostedJob::check(std::int32_t result) const {
  if (result != PIPEFILL_FILL_OK) throw JobFailure{result, error_.text};
}

std::vector<pipefill_fill_configuration> HostedJob::configurations() {
  std::int32_t count = 0;
  check(kind_.configurations(job_, nullptr, 0, &count, &error_));
  std::vector<pipefill_fill_configuration> all(static_cast<std::size_t>(count));
  check(kind_.configurations(job_, all.data(), count, &count, &error_));
  return all;
}

std::vector<pipefill_fill_chunk> HostedJob::plan(int configuration, std::int64_t chunks) {
  std::vector<pipefill_fill_chunk> all(static_cast<std::size_t>(chunks));
  check(kind_.plan(job_, configuration, 0, chunks, all.data(), &error_));
  return all;
}

void HostedJob::restore(int configuration, void* state, std::int64_t done) {
  check(kind_.restore(job_, configuration, state, done, &error_));
}

void HostedJob::run(std::int64_t chunk) {
  const pipefill_fill_grant grant{sizeof grant, 0, nullptr, [](void*) { return 0; }};
  check(kind_.run(job_, chunk, &grant, &error_));
}

void HostedJob::save(std::int64_t done) { check(kind_.save(job_, done, &error_)); }

MappedState::MappedState(const std::string& directory, std::int64_t bytes)
    : size_(kHead + static_cast<std::size_t>(bytes)) {
  const int file = ::open((directory + "/state.bin").c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(size_)) != 0) throw std::runtime_error("no state file");
  memory_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory_ == MAP_FAILED) throw std::runtime_error("no mapping");
}

MappedState::~MappedState() { ::munmap(memory_, size_); }

Outputs outputs_of(const std::string& directory) {
  Outputs outputs;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name.starts_with('.')) continue;  // of a save that was killed
    if (name == "state.bin" || name == "model.json") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    outputs[name] = text.str();
  }
  return outputs;
}

namespace {

std::int64_t state_bytes(const JobText& text, const std::string& directory, int configuration) {
  return HostedJob(text, directory).configurations().at(static_cast<std::size_t>(configuration)).state_bytes;
}

std::int64_t chunks_of(const JobText& text, const std::string& directory, int configuration) {
  return HostedJob(text, directory).configurations().at(static_cast<std::size_t>(configuration)).chunks;
}

/// Runs all chunks, each `times` times, and saves.
Outputs run_whole(const JobText& text, int configuration, int times) {
  const TemporaryDirectory directory;
  HostedJob job(text, directory.path());
  const auto c = job.configurations().at(static_cast<std::size_t>(configuration));
  const MappedState state(directory.path(), c.state_bytes);
  job.restore(configuration, state.state(), 0);
  for (std::int64_t chunk = 0; chunk < c.chunks; ++chunk)
    for (int i = 0; i < times; ++i) job.run(chunk);
  job.save(c.chunks);
  return outputs_of(directory.path());
}

/// What a worker does, in a process of its own: goes on from the state and saves at the end. Never returns.
[[noreturn]] void work_as_child(const JobText& text, const std::string& directory, int configuration,
                                const MappedState& state) {
  try {
    HostedJob job(text, directory);
    const auto c = job.configurations().at(static_cast<std::size_t>(configuration));
    job.restore(configuration, state.state(), state.done());
    while (state.done() < c.chunks) {
      job.run(state.done());
      std::atomic_ref(state.done()).fetch_add(1);
    }
    job.save(c.chunks);
    ::_exit(0);
  } catch (const JobFailure& failure) {
    std::fprintf(stderr, "child: %s\n", failure.text.c_str());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "child: %s\n", e.what());
  }
  ::_exit(1);
}

}  // namespace

Outputs run_straight(const JobText& text, int configuration) { return run_whole(text, configuration, 1); }
Outputs run_every_chunk_twice(const JobText& text, int configuration) { return run_whole(text, configuration, 2); }

Outputs run_with_restores(const JobText& text, unsigned seed, int configuration) {
  std::mt19937 random(seed);
  const TemporaryDirectory directory;
  const std::int64_t bytes = state_bytes(text, directory.path(), configuration);
  const MappedState state(directory.path(), bytes);
  std::int64_t chunks = 1;
  while (state.done() < chunks) {
    // The state moves to another place every time: nothing in it may be a pointer.
    const std::vector<std::byte> copy(state.bytes().begin(), state.bytes().end());
    const TemporaryDirectory other;
    const MappedState moved(other.path(), bytes);
    std::memcpy(moved.bytes().data(), copy.data(), copy.size());
    HostedJob job(text, directory.path());
    chunks = job.configurations().at(static_cast<std::size_t>(configuration)).chunks;
    job.restore(configuration, moved.state(), moved.done());
    const std::int64_t stop = std::min<std::int64_t>(chunks, moved.done() + 1 + random() % (chunks / 3 + 2));
    while (moved.done() < stop) {
      job.run(moved.done());
      ++moved.done();
    }
    if (stop < chunks && random() % 2 == 0) job.run(stop);  // done, but lost: it will run again
    if (random() % 3 == 0) job.save(moved.done());
    if (stop == chunks) job.save(chunks);
    std::memcpy(state.bytes().data(), moved.bytes().data(), moved.bytes().size());
  }
  return outputs_of(directory.path());
}

Outputs run_with_kills(const JobText& text, unsigned seed, int configuration) {
  constexpr int kKills = 5;
  std::mt19937 random(seed);
  const TemporaryDirectory directory;
  const std::int64_t chunks = chunks_of(text, directory.path(), configuration);
  const MappedState state(directory.path(), state_bytes(text, directory.path(), configuration));
  const std::atomic_ref<std::int64_t> done(state.done());
  for (int kill = 0; kill <= kKills; ++kill) {
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("no child");
    if (child == 0) work_as_child(text, directory.path(), configuration, state);
    int status = 0;
    if (kill < kKills) {
      const std::int64_t left = std::max<std::int64_t>(chunks - done, 1);  // 0: killed while it saved
      const std::int64_t target = done + static_cast<std::int64_t>(random()) % left * (kill + 1) / kKills;
      while (done < target && ::waitpid(child, &status, WNOHANG) == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500));
      ::kill(child, SIGKILL);
    }
    if (::waitpid(child, &status, 0) == child && WIFEXITED(status)) {
      if (WEXITSTATUS(status) != 0) throw std::runtime_error("the child failed");
      break;
    }
  }
  return outputs_of(directory.path());
}

Outputs run_in_parts(const JobText& text, std::int64_t shards, int configuration) {
  const TemporaryDirectory whole;
  std::vector<std::string> names;
  std::string configuration_name;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    JobText part = text;
    part.shard = shard, part.shards = shards;
    names.push_back(whole / ("part-" + std::to_string(shard)));
    std::filesystem::create_directory(names.back());
    HostedJob job(part, names.back());
    const auto c = job.configurations().at(static_cast<std::size_t>(configuration));
    configuration_name = c.name;
    const MappedState state(names.back(), c.state_bytes);
    job.restore(configuration, state.state(), 0);
    for (std::int64_t chunk = 0; chunk < c.chunks; ++chunk) job.run(chunk);
    job.save(c.chunks);
  }
  const JobSetup setup(text, whole.path());
  std::vector<const char*> parts;
  for (const std::string& name : names) parts.push_back(name.c_str());
  pipefill_fill_error error{};
  const std::int32_t result = text.kind->merge(&setup.setup, configuration_name.c_str(), parts.data(), shards, &error);
  if (result != PIPEFILL_FILL_OK) throw JobFailure{result, error.text};
  for (const std::string& name : names) std::filesystem::remove_all(name);
  return outputs_of(whole.path());
}

void expect_resumable(const JobText& text, int configuration) {
  const Outputs straight = run_straight(text, configuration);
  ASSERT_FALSE(straight.empty());
  EXPECT_EQ(run_every_chunk_twice(text, configuration), straight);
  for (unsigned seed = 1; seed <= 2; ++seed)
    EXPECT_EQ(run_with_restores(text, seed, configuration), straight) << "seed " << seed;
  EXPECT_EQ(run_with_kills(text, 4, configuration), straight);

  const TemporaryDirectory directory;
  HostedJob job(text, directory.path());
  const auto c = job.configurations().at(static_cast<std::size_t>(configuration));
  double samples = 0;
  for (const pipefill_fill_chunk& chunk : job.plan(configuration, c.chunks)) {
    EXPECT_GT(chunk.flops, 0);
    EXPECT_GT(chunk.bytes, 0);
    EXPECT_GE(chunk.samples, 0);
    EXPECT_LE(chunk.memory_bytes, c.memory_bytes);
    samples += chunk.samples;
  }
  EXPECT_NEAR(samples, static_cast<double>(c.samples), 1e-6 * static_cast<double>(c.samples));
}

}  // namespace pipefill::testing
