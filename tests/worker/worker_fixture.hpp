// A supervisor, a directory for jobs, and a main thread that grants bubbles, for tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/temporary_directory.hpp"
#include "counting_kind.hpp"
#include "tests/support/content.hpp"
#include "worker/job_directory.hpp"
#include "worker/supervisor.hpp"

namespace pipefill::testing {

using namespace std::chrono_literals;

class WorkerTest : public ::testing::Test {
 protected:
  static SupervisorSettings settings() {
    SupervisorSettings s;
    s.arguments = {"test_worker", "fill-worker"};
    s.priority = WorkerPriority::normal;  // on cores busy with other tests an idle worker would starve for seconds
    s.back_off = 20ms;
    s.hang = 500ms;
    s.grace = 20ms;  // these cores are busy with other tests
    s.find_kind = find_test_kind;
    return s;
  }

  /// A submitted job; `rest` are further lines of its job file.
  std::string make_job(const std::string& name, const std::string& kind, const std::string& with,
                       const std::string& rest = "") {
    const std::string text = "name: " + name + "\nkind: " + kind + "\nwith: " + with + "\n" + rest;
    JobState state;
    state.name = name;
    state.kind = kind;
    state.base_directory = jobs_.path();
    return JobDirectory::create(jobs_ / name, text, state).path();
  }
  static JobState state_of(const std::string& directory) { return JobDirectory::open(directory).read_state(); }

  /// Grants bubbles, with pauses between them, until `over` or for 60 s.
  static void bubbles(Supervisor& supervisor, const std::function<bool()>& over, Nanoseconds bubble = 5ms,
                      Nanoseconds pause = 1ms) {
    const Nanoseconds limit = now() + 60s;
    while (!over()) {
      ASSERT_LT(now(), limit) << "it did not come to that: " << supervisor.job().message;
      const Nanoseconds end = now() + bubble;
      supervisor.grant(kNoDeadline, Bytes{1 << 30});
      while (now() < end && !supervisor.parked()) supervisor.wait_news(end - now());
      supervisor.stop();
      std::this_thread::sleep_for(pause);
    }
  }
  static void until_over(Supervisor& supervisor, Nanoseconds bubble = 5ms) {
    bubbles(
        supervisor,
        [&] {
          const AssignedState state = supervisor.job().state;
          return state == AssignedState::finished || state == AssignedState::failed ||
                 state == AssignedState::quarantined;
        },
        bubble);
  }

  TemporaryDirectory jobs_;
};

}  // namespace pipefill::testing
