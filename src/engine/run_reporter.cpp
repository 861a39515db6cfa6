#include "engine/run_reporter.hpp"

#include <chrono>
#include <filesystem>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace pipefill {
namespace {

constexpr Nanoseconds kHaltInterval = std::chrono::seconds(1);

}  // namespace

RunReporter::RunReporter(const RunDirectory& run, StatusFile& status_file, RunStatus start, Hdf5Thread& files, Log log)
    : directory(run),
      status(std::move(start)),
      status_file_(status_file),
      files_(files),
      log_(std::move(log)),
      metrics_(run.metrics()) {}

void RunReporter::append_metrics(nlohmann::json line) {
  files_.post([this, line = std::move(line)] {
    const std::string trouble = metrics_.append(line);
    if (trouble.empty())
      metrics_trouble_.went_well(log_);
    else
      metrics_trouble_.failed(log_, trouble);
  });
}

void RunReporter::write_status_later() {
  files_.post([this, now = status] {
    try {
      status_file_.write(now);
      status_trouble_.went_well(log_);
    } catch (const FileError& error) {
      status_trouble_.failed(log_, error.what());
    }
  });
}

bool RunReporter::asked_to_halt() {
  const Nanoseconds time = now();
  if ((looked_ < Nanoseconds{0} || time - looked_ >= kHaltInterval) && !looking_.exchange(true)) {
    looked_ = time;
    files_.post([this] {
      std::error_code ignored;
      if (std::filesystem::exists(directory.halt(), ignored)) halt_seen_ = true;
      looking_ = false;
    });
  }
  return halt_seen_;
}

}  // namespace pipefill
