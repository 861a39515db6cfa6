// A host of fill jobs for tests: the state in a mapped file, chunks run straight, repeated, across restores, and across
// kills of a process of their own.
#pragma once

#include <pipefill/fill_job.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace pipefill::testing {

struct JobText {
  const pipefill_fill_kind* kind;
  std::vector<std::pair<std::string, std::string>> with;
  std::uint64_t seed = 1;
  std::int32_t threads = 1;
  std::int64_t shard = 0, shards = 1;
};

/// What a function of the kind answered when that was not OK.
struct JobFailure {
  std::int32_t result;
  std::string text;
};

/// One created job; every function throws JobFailure.
class HostedJob {
 public:
  HostedJob(const JobText& text, const std::string& directory);
  ~HostedJob();
  HostedJob(const HostedJob&) = delete;
  HostedJob& operator=(const HostedJob&) = delete;

  std::vector<pipefill_fill_configuration> configurations();
  std::vector<pipefill_fill_chunk> plan(int configuration, std::int64_t chunks);
  void restore(int configuration, void* state, std::int64_t done);
  void run(std::int64_t chunk);
  void save(std::int64_t done);

 private:
  void check(std::int32_t result) const;
  const pipefill_fill_kind& kind_;
  pipefill_fill_job* job_ = nullptr;
  pipefill_fill_error error_{};
};

/// DIRECTORY/state.bin, mapped: the number of finished chunks, then from the next page on the state. Zeros at first.
class MappedState {
 public:
  MappedState(const std::string& directory, std::int64_t bytes);
  ~MappedState();
  MappedState(const MappedState&) = delete;
  MappedState& operator=(const MappedState&) = delete;
  std::int64_t& done() const { return *static_cast<std::int64_t*>(memory_); }
  std::byte* state() const { return static_cast<std::byte*>(memory_) + kHead; }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(memory_), size_}; }

 private:
  static constexpr std::size_t kHead = 4096;
  void* memory_;
  std::size_t size_;
};

/// Output files by name, the state and the pinned choice of a checkpoint left out.
using Outputs = std::map<std::string, std::string>;
Outputs outputs_of(const std::string& directory);

/// Each runs a whole job in an empty directory and returns what it wrote.
Outputs run_straight(const JobText& text, int configuration = 0);
Outputs run_every_chunk_twice(const JobText& text, int configuration = 0);
/// Destroys the job at random chunk boundaries, also after a chunk that does not count as done, and goes on from a copy
/// of its state; saves at random moments on the way.
Outputs run_with_restores(const JobText& text, unsigned seed, int configuration = 0);
/// In a child that is killed (SIGKILL) five times, at random moments in random chunks, and started again.
Outputs run_with_kills(const JobText& text, unsigned seed, int configuration = 0);

/// Runs the job in `shards` parts, each in a directory of its own, and joins them in an empty one. Throws JobFailure.
Outputs run_in_parts(const JobText& text, std::int64_t shards, int configuration = 0);

/// All of the above give the outputs of a straight run; the chunks' plans are sane (costs positive, samples add up).
void expect_resumable(const JobText& text, int configuration = 0);

}  // namespace pipefill::testing
