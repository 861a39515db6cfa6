// A small model's state, cut over ranks in any layout, and saves and loads of it: shared by the tests of this folder.
#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/load.hpp"
#include "checkpoint/save.hpp"
#include "comm/loopback_transport.hpp"
#include "comm/wait.hpp"
#include "storage/hdf5_thread.hpp"

namespace pipefill::testing {

/// How a run is cut: tensors over P stages, replicas, moments over the replicas or not (ZeRO-1).
enum class Moments { whole, sharded };
struct Cut {
  int stages = 1;
  int replicas = 1;
  Moments moments = Moments::whole;
};

/// Whole tensors, by group and name.
class Example {
 public:
  /// Values are a function of `seed`; `scale` multiplies the rows of every matrix.
  explicit Example(unsigned seed, std::int64_t scale = 1) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<std::uint32_t> bits;
    for (const auto group : {TensorGroup::parameters, TensorGroup::moment1, TensorGroup::moment2}) {
      for (const auto& [name, shape] : shapes(scale)) {
        TensorRows rows{group, name, shape, 0, shape[0]};
        std::vector<float> values(static_cast<std::size_t>(rows.elements()));
        for (float& value : values) {  // any bit pattern: NaNs, denormals and -0 have to survive as they are
          const std::uint32_t word = bits(random);
          std::memcpy(&value, &word, sizeof value);
        }
        tensors_.push_back({std::move(rows), std::move(values)});
      }
    }
  }

  struct Tensor {
    TensorRows rows;
    std::vector<float> values;
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }

  std::vector<TensorSlice> owned_by(int rank, const Cut& cut) const {
    std::vector<TensorSlice> slices;
    const int replica = rank / cut.stages;
    for (const auto& [whole, values] : tensors_) {
      if (stage_of(whole.name, cut) != rank % cut.stages) continue;
      TensorSlice slice{whole, {}};
      if (whole.group != TensorGroup::parameters && cut.moments == Moments::sharded) {
        slice.row_begin = whole.shape[0] * replica / cut.replicas;
        slice.row_end = whole.shape[0] * (replica + 1) / cut.replicas;
      } else if (replica != 0) {
        continue;
      }
      slice.values = std::span(values).subspan(static_cast<std::size_t>(slice.row_begin * slice.columns()),
                                               static_cast<std::size_t>(slice.elements()));
      slices.push_back(std::move(slice));
    }
    return slices;
  }

 private:
  static std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes(std::int64_t scale) {
    return {{"token_embedding.weight", {37 * scale, 4}}, {"block.0.mlp.expand.weight", {16 * scale, 4}},
            {"block.0.mlp.expand.bias", {16}},           {"block.1.mlp.expand.weight", {16 * scale, 4}},
            {"block.1.mlp.expand.bias", {16}},           {"final_norm.weight", {1}}};
  }
  /// Tensors in table order over the stages; with four stages the third holds one tensor and the fourth two.
  static int stage_of(const std::string& name, const Cut& cut) {
    const auto table = shapes(1);
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (table[i].first == name) return static_cast<int>(i) * cut.stages / static_cast<int>(table.size());
    }
    return 0;
  }
  std::vector<Tensor> tensors_;
};

inline RunState state_at(std::int64_t step, int attempt = 1) {
  RunState state;
  state.step = step;
  state.attempt = attempt;
  state.schedule = "1f1b";
  state.layers = {2};
  state.deck = "run:\n  seed: 7\n";
  state.next_sample = step * 32;
  state.seed = 7;
  state.training_loss = 0.1 + static_cast<double>(step) / 3;
  return state;
}

/// Runs `body(ranks)` as P*R ranks over the loopback transport.
inline void as_ranks(const Cut& cut, const std::function<void(const RankGroup&)>& body) {
  run_loopback(cut.stages * cut.replicas, [&](Transport& transport) {
    Waiter waiter({cut.stages, cut.replicas}, transport.rank(), {});
    body(ranks_over(transport, waiter));
  });
}

struct SaveOptions {
  int keep = 100;
  int inject_rank = 0;
  std::function<int(const char*)> inject = {};
};

/// One HDF5 thread serves all ranks of the process, as HDF5 itself demands.
inline SaveReport save(const std::string& directory, const Example& example, const RunState& state, const Cut& cut = {},
                       const SaveOptions& options = {}) {
  Hdf5Thread hdf5;
  std::vector<SaveReport> reports(static_cast<std::size_t>(cut.stages * cut.replicas));
  std::set<std::string> known_good;
  as_ranks(cut, [&](const RankGroup& ranks) {
    const std::vector<TensorSlice> slices = example.owned_by(ranks.rank, cut);
    std::set<std::string> unused;
    SaveRequest request{.directory = directory, .state = state, .slices = slices, .keep = options.keep};
    if (ranks.rank == options.inject_rank) request.inject = options.inject;
    reports[static_cast<std::size_t>(ranks.rank)] =
        save_checkpoint(ranks, hdf5, request, ranks.rank == 0 ? known_good : unused);
  });
  for (const SaveReport& report : reports) {
    if (report.error != reports[0].error || report.path != reports[0].path || report.bytes != reports[0].bytes) {
      throw std::logic_error("ranks disagree on a save: " + report.error + " / " + reports[0].error);
    }
  }
  return reports[0];
}

/// Everything in the checkpoint, read whole by one process, equals the example bit for bit.
inline bool holds(const FoundCheckpoint& checkpoint, const Example& example) {
  for (const auto& [rows, values] : example.tensors()) {
    std::vector<float> loaded(values.size());
    const TensorDestination wanted{rows, loaded};
    load_tensors(single_rank(), checkpoint, std::span(&wanted, 1));
    if (std::memcmp(loaded.data(), values.data(), values.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

inline std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace pipefill::testing
