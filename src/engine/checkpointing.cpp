#include "engine/checkpointing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace pipefill {
namespace {

constexpr int kFailuresAllowed = 3;

TensorRows rows_of(TensorGroup group, const TensorSpec& spec, RowRange rows) {
  return {group, spec.name, spec.shape, rows.first, rows.first + rows.count};
}

bool counts_here(const Stage& stage, const TensorSpec& spec) {
  return std::ranges::count(stage.setup().chunks, spec.chunk) > 0;
}

}  // namespace

std::vector<TensorSlice> slices_to_save(const Stage& stage, const Adamw& adamw, ReplicaId replica,
                                        OptimizerShard shard) {
  std::vector<TensorSlice> slices;
  const auto tensors = stage.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& spec = tensors[i].spec;
    const Moments& moments = adamw.moments()[i];
    if (!counts_here(stage, spec)) continue;
    if (replica.value == 0)
      slices.push_back({rows_of(TensorGroup::parameters, spec, {0, spec.rows()}), tensors[i].values});
    if (moments.rows.count == 0 || (shard == OptimizerShard::no && replica.value != 0)) continue;
    slices.push_back({rows_of(TensorGroup::moment1, spec, moments.rows), moments.first});
    slices.push_back({rows_of(TensorGroup::moment2, spec, moments.rows), moments.second});
  }
  return slices;
}

std::vector<TensorDestination> rows_to_load(const Stage& stage, const Adamw& adamw) {
  std::vector<TensorDestination> rows;
  const auto tensors = stage.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& spec = tensors[i].spec;
    const Moments& moments = adamw.moments()[i];
    rows.push_back({rows_of(TensorGroup::parameters, spec, {0, spec.rows()}), tensors[i].values});
    if (moments.rows.count == 0) continue;
    rows.push_back({rows_of(TensorGroup::moment1, spec, moments.rows), moments.first});
    rows.push_back({rows_of(TensorGroup::moment2, spec, moments.rows), moments.second});
  }
  return rows;
}

Checkpointer::Checkpointer(std::filesystem::path directory, int keep, RankGroup ranks, Hdf5Thread& hdf5)
    : directory_(std::move(directory)), keep_(keep), ranks_(std::move(ranks)), hdf5_(hdf5) {}

void Checkpointer::save(const RunState& state, std::span<const TensorSlice> slices, const Log& log) {
  SaveRequest request;
  request.directory = directory_;
  request.state = state;
  request.slices = slices;
  request.keep = keep_;
  const SaveReport report = save_checkpoint(ranks_, hdf5_, request, known_good_);
  longest_ = std::max(longest_, report.total);
  trouble_ = report.error;
  if (report.saved()) {
    failures_in_a_row_ = 0;
    last_good_step_ = state.step;
    if (ranks_.rank == 0) {
      log->info("checkpoint of step {} saved: {} in {}", state.step, format_bytes(report.bytes),
                format_duration(report.total));
      if (!report.warning.empty()) log->warn("{}", report.warning);
    }
    return;
  }
  ++failures_in_a_row_;
  const std::string last = last_good_step_ ? fmt::format("the last good one is of step {}", *last_good_step_)
                                           : std::string("there is no good one yet");
  const std::string text = fmt::format("checkpoint of step {} failed ({} of {} in a row): {}; {}", state.step,
                                       failures_in_a_row_, kFailuresAllowed, report.error, last);
  if (failures_in_a_row_ >= kFailuresAllowed)
    throw SharedError(ExitCode::input_output, directory_.string() + ": " + text);
  if (ranks_.rank == 0) log->warn("{}; the run goes on", text);
}

Nanoseconds Checkpointer::predicted_time(Bytes size) const {
  if (longest_.count() > 0) return longest_ * 2;
  return from_seconds(0.1 + static_cast<double>(size.count) / 200e6);
}

void Checkpointer::note_good(const FoundCheckpoint& found) {
  last_good_step_ = found.manifest.state.step;
  known_good_.insert(std::filesystem::path(found.path).filename());
}

}  // namespace pipefill
