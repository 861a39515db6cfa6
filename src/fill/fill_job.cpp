#include "fill/fill_job.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"

namespace pipefill {
namespace {

using namespace std::chrono_literals;

constexpr int kMostClasses = 1024;
constexpr std::int64_t kMostChunks = std::int64_t{1} << 53;
constexpr Nanoseconds kUnknown = 1ms;   // of a chunk that says nothing about itself
constexpr Nanoseconds kShortest = 1us;  // nothing takes no time
constexpr Nanoseconds kLongest = 1h;
constexpr double kForever = 4e18;  // ns, over a hundred years; sums of times stay below

bool is_amount(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

Nanoseconds predict_time(double flops, double bytes, const MachineRate& rate) {
  if (flops == 0 && bytes == 0) return kUnknown;
  const double seconds = std::max(flops / rate.flops_per_second, bytes / rate.bytes_per_second);
  return seconds >= to_seconds(kLongest) ? kLongest : std::max(kShortest, from_seconds(seconds));
}

void FillConfiguration::append(const ChunkRun& run, double flops, double bytes, const MachineRate& rate) {
  if (run.cost_class < 0 || run.cost_class >= kMostClasses || run.count < 1 ||
      run.count > kMostChunks - chunks.size() || run.memory < Bytes{0} || !is_amount(run.samples) ||
      !is_amount(flops) || !is_amount(bytes))
    throw Error(
        ExitCode::damaged_data,
        fmt::format(
            "fill configuration '{}': {} chunks from {} on say cost class {} (0..{} are allowed), {} bytes of memory, "
            "{} samples, {} flops, {} bytes moved; no plan can be made with that: correct the kind's "
            "'plan' function",
            name, run.count, chunks.size(), run.cost_class, kMostClasses - 1, run.memory.count, run.samples, flops,
            bytes));
  if (static_cast<std::size_t>(run.cost_class) >= times.size())
    times.resize(static_cast<std::size_t>(run.cost_class) + 1);
  ChunkTime& time = times[static_cast<std::size_t>(run.cost_class)];
  const Nanoseconds predicted = predict_time(flops, bytes, rate);
  if (time.source() == CostSource::predicted && predicted > time.time()) time = ChunkTime(predicted);
  chunks.append(run);
}

Nanoseconds FillConfiguration::remaining_time(std::int64_t done) const {
  double sum = 0;
  chunks.total(done, [&](const ChunkRun& run, std::int64_t count) {
    sum += static_cast<double>(price(run).time.count()) * static_cast<double>(count);
  });
  return Nanoseconds{static_cast<std::int64_t>(std::min(sum, kForever))};
}

}  // namespace pipefill
