// state.bin: the memory of a job that outlives its chunks, mapped shared, so that a kill -9 loses nothing of it. One
// page of head (what it belongs to, how many chunks are done), then the kind's state.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.hpp"

namespace pipefill {

/// What a state belongs to; it is good for nothing else.
struct JobStateKey {
  std::string kind;           ///< at most 31 characters count
  std::string configuration;  ///< at most 63
  std::int64_t chunks = 0;
  std::int64_t state_bytes = 0;
};

class JobStateFile {
 public:
  /// Maps the file, or makes it full of zeros (its blocks reserved, so that a full disk is an error here and not a
  /// SIGBUS later). FileError 65 when the file is damaged or belongs to something else, 74 when the disk is full.
  static JobStateFile open(const std::string& path, const JobStateKey& key);
  JobStateFile(JobStateFile&& other) noexcept;
  JobStateFile& operator=(JobStateFile&&) = delete;
  ~JobStateFile();

  void* state() const;  ///< page aligned; state_bytes long
  std::int64_t done() const;
  /// Chunk `done` is finished: everything before it in program order is in the file before it.
  void set_done(std::int64_t done);
  Nanoseconds cpu_time() const;
  Nanoseconds chunk_time() const;
  void add_times(Nanoseconds cpu, Nanoseconds chunk);
  /// Until it is on the disk. FileError 74.
  void sync() const;

 private:
  JobStateFile(std::string path, void* at, std::size_t bytes) : path_(std::move(path)), at_(at), bytes_(bytes) {}
  std::string path_;
  void* at_;
  std::size_t bytes_;
};

/// Reads `done` of a state file without mapping it for writing; 0 when there is none. FileError 65 when damaged.
std::int64_t read_done(const std::string& path);

}  // namespace pipefill
