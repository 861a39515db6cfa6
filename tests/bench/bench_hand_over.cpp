// How fast does a core change hands between a rank and its fill worker? Grant to first instruction, stop to parked, and
// what a grant and a stop cost the rank's thread; worker in the idle class, both on the same core.
// Command: bench_hand_over [grants [normal]]; normal, for cores that others keep busy. Wanted (on quiet cores): grant
// to first instruction p50 < 20 us, p99 < 200 us.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/temporary_directory.hpp"
#include "counting_kind.hpp"
#include "worker/job_directory.hpp"
#include "worker/supervisor.hpp"
#include "worker/worker_main.hpp"

namespace {

using namespace pipefill;
using namespace std::chrono_literals;

void print(const char* what, std::vector<double>& us) {
  if (us.empty()) return fmt::print("{:<36} nothing measured\n", what);
  std::ranges::sort(us);
  const auto at = [&us](double q) { return us[static_cast<std::size_t>(q * static_cast<double>(us.size() - 1))]; };
  fmt::print("{:<36} p50 {:7.1f} us  p90 {:7.1f}  p99 {:7.1f}  of {}\n", what, at(0.5), at(0.9), at(0.99), us.size());
}

double us(Nanoseconds time) { return 1e-3 * static_cast<double>(time.count()); }

void bind_to_one_core() {
  cpu_set_t all, one;
  ::sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  int core = CPU_SETSIZE - 1;
  while (core > 0 && !CPU_ISSET(core, &all)) --core;
  CPU_SET(core, &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

void measure(int grants, WorkerPriority priority) {
  bind_to_one_core();
  const pipefill::TemporaryDirectory directory;
  JobState state;
  state.name = "bench";
  state.kind = "counting";
  state.base_directory = directory.path();
  const std::string job = directory / "bench";
  JobDirectory::create(job, "name: bench\nkind: counting\nwith: {chunks: 100000000, chunk_us: 300, quiet: 1}\n", state);
  SupervisorSettings settings;
  settings.arguments = {"bench_hand_over", "fill-worker"};
  settings.grace = 5ms;
  settings.priority = priority;
  Supervisor supervisor(settings, make_null_log());
  supervisor.start();
  supervisor.assign(job, "");
  while (supervisor.job().state != AssignedState::ready) std::this_thread::sleep_for(1ms);

  std::vector<double> first, grant_cost, boundary_park, stop_park;
  std::vector<ChunkRecord> records;
  for (int i = 0; i < grants; ++i) {
    for (const Nanoseconds end = now() + 2ms; now() < end;) {  // the main job's part of the step
    }
    records.clear();
    supervisor.drain(records);
    records.clear();
    const Nanoseconds granted = now();
    supervisor.grant(kNoDeadline, Bytes{1 << 30});
    grant_cost.push_back(us(now() - granted));
    const bool at_boundary = i % 2 == 0;
    if (at_boundary) {
      for (int chunk = 0; chunk < 3; ++chunk) supervisor.wait_news(20ms);  // the arrival is noticed at a chunk's end
    } else {
      std::this_thread::sleep_for(800us);  // in the middle of a chunk
    }
    const Nanoseconds stopping = now();
    const ParkResult result = supervisor.stop();
    const double took = us(now() - stopping);
    if (result == ParkResult::parked) (at_boundary ? boundary_park : stop_park).push_back(took);
    supervisor.drain(records);
    if (!records.empty()) first.push_back(us(Nanoseconds{records.front().start_ns} - granted));
  }
  print("grant to first instruction", first);
  print("grant: cost to the rank's thread", grant_cost);
  print("stop at a chunk's end to parked", boundary_park);
  print("stop within a 300 us chunk to parked", stop_park);
  fmt::print("hard stops: {}\n", supervisor.hard_stops());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "fill-worker")
    return pipefill::worker_main(argc, argv, pipefill::testing::find_test_kind);
  const bool normal = argc > 2 && std::string_view(argv[2]) == "normal";
  measure(argc > 1 ? std::atoi(argv[1]) : 2000, normal ? WorkerPriority::normal : WorkerPriority::idle);
  return 0;
}
