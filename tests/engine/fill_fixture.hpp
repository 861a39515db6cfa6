// Fill jobs that count, workers for them, and a trace that can be read back: for the tests of the hand-over, the desk
// and the clerk.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/temporary_directory.hpp"
#include "counting_kind.hpp"
#include "engine/bubble_fill.hpp"
#include "engine/fill_clerk.hpp"
#include "storage/hdf5_thread.hpp"
#include "tests/support/content.hpp"
#include "tests/trace/trace_samples.hpp"
#include "trace/merge.hpp"
#include "trace/trace.hpp"
#include "worker/job_directory.hpp"
#include "worker/queue.hpp"

namespace pipefill::testing {

using namespace std::chrono_literals;

/// Waits until it is so; a test that waits longer than any machine needs has failed.
inline bool eventually(const std::function<bool()>& condition, Nanoseconds limit = 30s) {
  for (const Nanoseconds end = now() + limit; now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(2ms);
  }
  return condition();
}

class FillTest : public ::testing::Test {
 protected:
  static SupervisorSettings worker(FillIsolation isolation = FillIsolation::in_process) {
    SupervisorSettings s;
    s.isolation = isolation;
    s.arguments = {"test_engine", "fill-worker"};
    s.priority = WorkerPriority::normal;  // on cores busy with other tests an idle worker would starve for seconds
    s.back_off = 20ms;
    s.grace = 20ms;
    s.find_kind = find_test_kind;
    return s;
  }

  /// Text of a job file; `with` are further parameters of the counting kind.
  static std::string job_text(const std::string& name, const std::string& with, const std::string& rest = "") {
    return "name: " + name + "\nkind: plugin\nwith: {library: \"" PIPEFILL_TEST_PLUGIN "\", " + with + "}\n" + rest;
  }
  /// The job file of the deck.
  std::string job_file(const std::string& name, const std::string& with, const std::string& rest = "") {
    const std::string path = scratch_ / (name + ".yaml");
    std::ofstream(path) << job_text(name, with, rest);
    return path;
  }
  /// A submitted job with its directory, for a worker to run.
  std::string job_directory(const std::string& name, const std::string& with) {
    JobState state;
    state.name = name, state.kind = "plugin", state.base_directory = scratch_.path();
    return JobDirectory::create(scratch_ / name, job_text(name, with), state).path();
  }
  std::string run_directory() const { return scratch_ / "run"; }
  JobStatus status(const std::string& job) const {
    return JobDirectory::open(run_directory() + "/fill/" + job).read_state().status;
  }

  Trace& trace() {
    if (!trace_)
      trace_.emplace(TraceOptions{.directory = scratch_ / "trace"}, sample_run(1), sample_rank(0, Nanoseconds{0}),
                     hdf5_, make_null_log());
    return *trace_;
  }
  /// What was recorded; ends the trace.
  CollectingSink recorded() {
    trace().close(now(), std::nullopt);
    trace_.reset();
    CollectingSink sink;
    hdf5_.run([&] { read_trace(scratch_ / "trace", sink); });
    return sink;
  }

  TemporaryDirectory scratch_;
  Hdf5Thread hdf5_;
  std::optional<Trace> trace_;
};

}  // namespace pipefill::testing
