// The whole run as one struct of values, filled from a deck (config/load) and handed to every other part.
// Every member is one key of the deck; config/keys.cpp is the one table that names, documents and checks them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "data/token_data.hpp"
#include "engine/progress.hpp"
#include "fill/policy.hpp"
#include "fill/strategy.hpp"
#include "model/learning_rate.hpp"
#include "model/model_shape.hpp"
#include "worker/supervisor.hpp"

namespace pipefill {

struct RunSection {
  std::string directory;  ///< load_deck fills it in: runs/<deck name> where the deck says nothing
  std::int64_t steps = 100;
  std::uint64_t seed = 1;   ///< below 2^63
  Nanoseconds max_time{0};  ///< 0: no limit
  Nanoseconds hang_timeout{10'000'000'000};
  friend bool operator==(const RunSection&, const RunSection&) = default;
};

struct ModelSection {
  int layers = 4;
  int channels = 128;
  int heads = 4;
  int context = 64;
  int vocab = 0;  ///< 0: auto, from the data source
  bool tied = true;
  ComputeType compute = ComputeType::fp32;
  friend bool operator==(const ModelSection&, const ModelSection&) = default;
};

struct DataSection {
  TokenFormat source = TokenFormat::synthetic;
  std::vector<std::string> files;  ///< globs
  int vocab = 64;                  ///< synthetic: number of symbols
  double validation_fraction = 0.05;
  std::int64_t validation_every = 0;       ///< steps; 0: only at the end
  std::int64_t validation_tokens = 16384;  ///< per validation, rounded up to whole microbatches
  friend bool operator==(const DataSection&, const DataSection&) = default;
};

struct ParallelSection {
  int stages = 0;  ///< 0: auto, ranks / replicas
  int replicas = 1;
  std::vector<int> layers;  ///< explicit cut: layers per stage; empty: by cost
  friend bool operator==(const ParallelSection&, const ParallelSection&) = default;
};

struct ScheduleSection {
  std::string name = "1f1b";
  int microbatches = 8;
  int microbatch_size = 4;
  friend bool operator==(const ScheduleSection&, const ScheduleSection&) = default;
};

struct OptimizerSection {
  double learning_rate = 3e-3;
  double final_fraction = 0.1;  ///< of the learning rate, reached at the last step
  std::int64_t warm_up = 20;    ///< steps
  LearningRateDecay decay = LearningRateDecay::cosine;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;   ///< global norm; 0: no clipping
  bool shard = false;  ///< ZeRO-1 over replicas
  friend bool operator==(const OptimizerSection&, const OptimizerSection&) = default;
};

struct CheckpointSection {
  std::int64_t every = 0;  ///< steps; 0: only when the run stops
  int keep = 2;
  friend bool operator==(const CheckpointSection&, const CheckpointSection&) = default;
};

struct TraceSection {
  bool enabled = true;
  Nanoseconds segment{5'000'000'000};
  friend bool operator==(const TraceSection&, const TraceSection&) = default;
};

struct FillSection {
  FillStrategy strategy = FillStrategy::adaptive;
  std::vector<std::string> jobs;  ///< job files
  double max_slowdown = 0.01;
  std::int64_t profile = 10;  ///< steps that run unfilled at first
  double audit = 0.1;         ///< share of the steps that run unfilled for comparison
  std::int64_t block = 10;    ///< steps
  FillIsolation isolation = FillIsolation::process;
  int most_jobs = static_cast<int>(kMostSharing);  ///< that share a stage
  FillPolicy policy = FillPolicy::sjf;
  double weight_waiting = 0, weight_shortness = 1, weight_makespan = 0, weight_fairness = 0;
  Nanoseconds ageing{600'000'000'000};
  double fraction = 0.68;  ///< of strategy pipefill
  friend bool operator==(const FillSection&, const FillSection&) = default;
};

enum class DeviceKind { automatic, cpu, cuda };

/// automatic: spin, or yield where ranks share cores.
enum class WaitChoice { automatic, spin, yield, sleep };

struct DeviceSection {
  DeviceKind kind = DeviceKind::automatic;
  int threads = 0;  ///< OpenMP threads of a rank; 0: its share of the allowed cores
  bool bind = true;
  Bytes memory{0};  ///< limit of a rank; 0: its share of the host's
  WaitChoice wait = WaitChoice::automatic;
  friend bool operator==(const DeviceSection&, const DeviceSection&) = default;
};

struct LogSection {
  std::int64_t every = 10;  ///< steps between lines; the first five are always shown
  ProgressStyle progress = ProgressStyle::automatic;
  friend bool operator==(const LogSection&, const LogSection&) = default;
};

struct RunConfig {
  RunSection run;
  ModelSection model;
  DataSection data;
  ParallelSection parallel;
  ScheduleSection schedule;
  OptimizerSection optimizer;
  CheckpointSection checkpoint;
  TraceSection trace;
  FillSection fill;
  DeviceSection device;
  LogSection log;
  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

}  // namespace pipefill
