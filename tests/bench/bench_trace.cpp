// Question: what does tracing cost a step? share = (events per step x cost of one record + the writer's CPU time per
// event x events per step) / step time; promised: under 0.5 %. Prints the cost of one record, the writer's CPU time per
// event (gathering, compressing, writing, sealing) and the share for pipelines of some sizes.
//
//   build/release/tests/bench/bench_trace            about five seconds; writes to the temporary directory
//
// On a virtual machine with 2 cores, kept busy by other work (load 14): one record 4.9 ns, writer 583 ns of CPU per
// event (200 of them gzip); that is 0.22 % of a 20 ms step with 8 microbatches, 0.02 % of one of 200 ms.
#include <fmt/format.h>

#include <cstdio>
#include <thread>

#include "base/temporary_directory.hpp"
#include "bench_support.hpp"
#include "trace/trace.hpp"

namespace pipefill {
namespace {

constexpr int kBurst = 4000;  // events between two sleeps: less than the ring holds
constexpr int kBursts = 50;

struct Costs {
  double record_ns = 1e30;  // fastest burst
  double writer_ns = 0;     // CPU time per event
  TraceStatistics statistics;
};

/// Events as a run makes them: back to back, fields that vary, some idle time for the background thread.
Costs measure(const std::string& directory, Hdf5Thread& hdf5) {
  RunDescription run;
  run.config_yaml = std::string(3000, 'x');
  RankDescription rank;
  Trace trace({.directory = directory, .segment = Nanoseconds(1'000'000'000)}, run, rank, hdf5, make_null_log());
  Costs costs;
  std::int64_t clock = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    const double start = bench::seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < kBurst; ++i) {
      Event event;
      event.kind = static_cast<EventKind>(i % 16);
      event.step = burst;
      event.microbatch = static_cast<std::int16_t>(i % 8);
      event.slot = i % 40;
      event.start = Nanoseconds(clock);
      clock += 100'000 + (i * 7919) % 5000;
      event.end = Nanoseconds(clock);
      event.bytes = 1 << 20;
      trace.record(event);
    }
    costs.record_ns = std::min(costs.record_ns, 1e9 * (bench::seconds(CLOCK_THREAD_CPUTIME_ID) - start) / kBurst);
    std::this_thread::sleep_for(Nanoseconds(80'000'000));
  }
  trace.close(Nanoseconds(clock), std::nullopt);
  costs.statistics = trace.statistics();
  costs.writer_ns =
      static_cast<double>(costs.statistics.writer_cpu.count()) / static_cast<double>(costs.statistics.recorded);
  return costs;
}

}  // namespace
}  // namespace pipefill

int main() {
  using namespace pipefill;
  const TemporaryDirectory directory;
  Hdf5Thread hdf5;
  const Costs costs = measure(directory.path(), hdf5);
  fmt::print("one record: {:.1f} ns; writer: {:.0f} ns of CPU per event ({} events, {} segments, {} dropped)\n\n",
             costs.record_ns, costs.writer_ns, costs.statistics.recorded, costs.statistics.segments,
             costs.statistics.dropped);
  fmt::print("{:>14} {:>12} {:>16} {:>16}\n", "microbatches", "step", "events a step", "tracing's share");
  for (const int microbatches : {8, 32}) {
    for (const double step_ms : {20.0, 200.0, 2000.0}) {
      // Per microbatch: forward, backward, two sends, two arrivals, two bubbles; per step: some ten more.
      const int events = 8 * microbatches + 10;
      const double share = events * (costs.record_ns + costs.writer_ns) / (1e6 * step_ms);
      fmt::print("{:>14} {:>9} ms {:>16} {:>14.4f} %\n", microbatches, step_ms, events, 100 * share);
    }
  }
}
