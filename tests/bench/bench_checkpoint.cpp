// Question: how fast is a checkpoint (hashes, HDF5, manifest, fsyncs, rename) beside a plain write + fsync of as many
// bytes to the same disk? Target: at least 0.80 of it.
// Command: bench_checkpoint [DIRECTORY] [MiB] [ROUNDS]; the two are interleaved, medians compared.
// Result (2 cores, virtual disk, 9 rounds, machine at rest): 256 MiB 0.84 and 0.87, 64 MiB 0.84; with 20 other
// processes computing it fell to 0.69, for hashing then waits for the processor.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "checkpoint/save.hpp"
#include "storage/atomic_file.hpp"
#include "storage/hdf5_thread.hpp"

using namespace pipefill;

namespace {

/// 24 matrices in three groups, as a model's parameters and moments.
struct State {
  std::vector<float> values;
  std::vector<TensorSlice> slices;

  explicit State(std::int64_t mebibytes) : values(static_cast<std::size_t>(mebibytes << 18)) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000) * 0.25f;
    constexpr std::int64_t kTensors = 24, kColumns = 512;
    const std::int64_t rows = static_cast<std::int64_t>(values.size()) / kTensors / kColumns;
    for (std::int64_t i = 0; i < kTensors; ++i) {
      const auto group = static_cast<TensorGroup>(i % 3);
      TensorSlice slice{{group, "block." + std::to_string(i) + ".weight", {rows, kColumns}, 0, rows}, {}};
      slice.values = std::span(values).subspan(static_cast<std::size_t>(i * rows * kColumns),
                                               static_cast<std::size_t>(rows * kColumns));
      slices.push_back(slice);
    }
  }
};

/// Wall time, and processor time of the whole process: the latter tells the work itself on a machine that others use
/// too.
struct Cost {
  double wall_s = 0;
  double processor_s = 0;
};

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <class Work>
Cost cost_of(Work&& work) {
  const Nanoseconds start = now();
  const double before = processor_seconds();
  work();
  return {to_seconds(now() - start), processor_seconds() - before};
}

void plain_write(const std::string& path, const State& state) {
  FileDescriptor file = create_exclusive(path);
  write_all(file.get(), std::as_bytes(std::span(state.values)), path);
  if (::fsync(file.get()) != 0) throw FileError(ExitCode::input_output, path, "fsync failed");
  file.close(path);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = std::string(argc > 1 ? argv[1] : ".") + "/bench-checkpoint";
  const std::int64_t mebibytes = argc > 2 ? std::stoll(argv[2]) : 256;
  const int rounds = argc > 3 ? std::stoi(argv[3]) : 7;
  std::filesystem::create_directory(directory);
  const State state(mebibytes);
  Hdf5Thread hdf5;
  std::set<std::string> known_good;
  std::vector<double> plain, checkpoint, ratio;
  for (int round = 0; round <= rounds; ++round) {
    const Cost one = cost_of([&] { plain_write(directory + "/plain", state); });
    std::filesystem::remove(directory + "/plain");
    SaveRequest request{
        .directory = directory + "/checkpoints", .state = {}, .slices = state.slices, .keep = 100, .inject = {}};
    request.state.step = round + 1;
    SaveReport report;
    const Cost two = cost_of([&] { report = save_checkpoint(single_rank(), hdf5, request, known_good); });
    if (!report.saved()) return std::fprintf(stderr, "%s\n", report.error.c_str()), 1;
    std::filesystem::remove_all(report.path);
    if (round == 0) continue;  // first touch of disk blocks and buffers
    plain.push_back(one.wall_s);
    checkpoint.push_back(two.wall_s);
    ratio.push_back(one.wall_s / two.wall_s);
    std::printf("round %d: plain %.3f s (processor %.3f s), checkpoint %.3f s (processor %.3f s), ratio %.2f\n", round,
                one.wall_s, one.processor_s, two.wall_s, two.processor_s, ratio.back());
  }
  std::filesystem::remove_all(directory);
  const double size = static_cast<double>(mebibytes) / 1024;
  std::printf("plain %.2f GiB/s, checkpoint %.2f GiB/s, median ratio of rounds %.2f (target 0.80)\n",
              size / median(plain), size / median(checkpoint), median(ratio));
  return median(ratio) >= 0.80 ? 0 : 1;
}
