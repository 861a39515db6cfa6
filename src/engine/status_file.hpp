// status.json as one start of a run writes it, from several threads and at its end from several ranks.
#pragma once

#include <mutex>

#include "engine/run_directory.hpp"

namespace pipefill {

class StatusFile {
 public:
  explicit StatusFile(RunDirectory run) : run_(std::move(run)) {}
  /// An end (finished, stopped, failed) is the last word of a start: what was queued before it and comes after it is
  /// dropped, also when another rank told the end. Throws FileError.
  void write(const RunStatus& status);

 private:
  bool end_is_told(int attempt) const;

  RunDirectory run_;
  std::mutex mutex_;
  bool ended_ = false;
};

}  // namespace pipefill
