// The files of a run that rank 0 keeps up to date while it runs, and the one it looks for.
#pragma once

#include <atomic>
#include <string>

#include <nlohmann/json.hpp>

#include "base/log.hpp"
#include "base/recurring_trouble.hpp"
#include "engine/metrics.hpp"
#include "engine/run_directory.hpp"
#include "engine/status_file.hpp"
#include "storage/hdf5_thread.hpp"

namespace pipefill {

/// A slow disk must not hold up a step, so all of it is done by the thread that writes everything else.
class RunReporter {
 public:
  /// `status_file` and `files` outlive it. Throws FileError (73).
  RunReporter(const RunDirectory& run, StatusFile& status_file, RunStatus start, Hdf5Thread& files, Log log);
  ~RunReporter() { flush(); }
  RunReporter(const RunReporter&) = delete;
  RunReporter& operator=(const RunReporter&) = delete;

  /// Trouble with a file is told in the log when it begins and ends, and ends nothing.
  void append_metrics(nlohmann::json line);
  /// `status` as it is now.
  void write_status_later();
  /// Whether `pipefill halt` has left its file. Looked for once a second at the most; the answer is of the last look.
  bool asked_to_halt();
  /// Returns when all of it is written.
  void flush() {
    files_.run([] {});
  }

  RunDirectory directory;
  RunStatus status;

 private:
  StatusFile& status_file_;
  Hdf5Thread& files_;
  Log log_;
  MetricsFile metrics_;
  // Of the files' thread.
  RecurringTrouble metrics_trouble_{directory.metrics().string(),
                                    "its lines are lost until that is over; the run goes on"};
  RecurringTrouble status_trouble_{directory.status().string(),
                                   "it stays as it was until that is over; the run goes on"};
  std::atomic<bool> halt_seen_ = false, looking_ = false;
  Nanoseconds looked_{-1};
};

}  // namespace pipefill
