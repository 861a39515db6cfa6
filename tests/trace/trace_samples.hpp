// Hand-made traces for the tests of this folder.
#pragma once

#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "trace/event.hpp"
#include "trace/trace.hpp"
#include "trace/trace_stream.hpp"

namespace pipefill::testing {

inline RunDescription sample_run(int stages = 2, int replicas = 1) {
  RunDescription run;
  run.run_id = "sample";
  run.config_yaml = "run:\n  steps: 2\n";
  run.software_version = "0.1.0";
  run.build = "g++ 12";
  run.schedule = "1f1b";
  run.ranks = stages * replicas;
  run.stages = stages;
  run.replicas = replicas;
  run.microbatches = 4;
  run.bubble_fraction_closed_form = 0.2;
  return run;
}

inline RankDescription sample_rank(int rank, Nanoseconds started = Nanoseconds(1000)) {
  RankDescription description;
  description.rank = rank;
  description.stage = rank;
  description.host = "node1";
  description.pid = 100 + rank;
  description.device = "cpu";
  description.threads = 2;
  description.cores = "0-1";
  description.started = started;
  description.started_wall = 1.7e9;
  description.clock = {started, Nanoseconds(0), Nanoseconds(5)};
  return description;
}

inline Event sample_event(EventKind kind, std::int64_t start, std::int64_t end, int step = 1, int slot = -1) {
  Event event;
  event.kind = kind;
  event.step = step;
  event.slot = slot;
  event.start = Nanoseconds(start);
  event.end = Nanoseconds(end);
  return event;
}

/// Keeps what a stream hands on.
struct CollectingSink final : TraceSink {
  RunDescription run;
  std::vector<RankRow> rank_rows;
  std::vector<FillJobRow> job_rows;
  std::vector<StepRow> step_rows;
  std::vector<EventRow> event_rows;
  void begin(const RunDescription& description) override { run = description; }
  void ranks(std::span<const RankRow> rows) override { rank_rows.assign(rows.begin(), rows.end()); }
  void fill_jobs(std::span<const FillJobRow> rows) override {
    job_rows.insert(job_rows.end(), rows.begin(), rows.end());
  }
  void steps(std::span<const StepRow> rows) override { step_rows.insert(step_rows.end(), rows.begin(), rows.end()); }
  void events(std::span<const EventRow> rows) override {
    event_rows.insert(event_rows.end(), rows.begin(), rows.end());
  }
};

/// A log whose lines a test can read.
class LogLines final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    lines_.emplace_back(message.payload.data(), message.payload.size());
  }
  void flush_() override {}
  std::vector<std::string> lines_;
};

}  // namespace pipefill::testing
