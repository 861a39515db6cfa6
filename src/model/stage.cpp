// A stage forwards each call to the chunk it is for, in the compute type of the model.
#include "model/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <variant>

#include "base/contract.hpp"
#include "base/error.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "model/chunk.hpp"
#include "model/parameter_store.hpp"

namespace pipefill {

struct Stage::Parts {
  StageSetup setup;
  Device& device;
  ParameterTable table;
  ParameterStore store;
  std::variant<std::vector<Chunk<float>>, std::vector<Chunk<Bf16>>> chunks;
  std::map<MicrobatchId, double> losses;

  Parts(const StageSetup& s, Device& d)
      : setup(s), device(d), table(parameter_table(s.shape, s.cut)), store(s, table, d) {
    if (s.shape.compute == ComputeType::bf16) chunks.emplace<1>();
    std::visit(
        [&](auto& list) {
          list.reserve(s.chunks.size());
          for (std::size_t i = 0; i < s.chunks.size(); ++i) list.emplace_back(s, i, store, d);
        },
        chunks);
  }

  /// Calls visit(chunk) for the held chunk `id`.
  template <class Visit>
  auto on(ModelChunkId id, Visit visit) {
    const auto it = std::find(setup.chunks.begin(), setup.chunks.end(), id);
    if (it == setup.chunks.end())
      throw Error(ExitCode::bug, fmt::format("chunk {} is not held by this stage", id.value));
    const auto index = static_cast<std::size_t>(it - setup.chunks.begin());
    return std::visit([&](auto& list) { return visit(list[index]); }, chunks);
  }
};

namespace {

const StageSetup& checked(const StageSetup& setup) {
  check_shape(setup.shape);
  PF_EXPECT(!setup.chunks.empty() && std::is_sorted(setup.chunks.begin(), setup.chunks.end()));
  PF_EXPECT(setup.slots.size() == setup.chunks.size());
  PF_EXPECT(setup.weight_slots.empty() || setup.weight_slots.size() == setup.chunks.size());
  PF_EXPECT(setup.microbatch_size >= 1);
  return setup;
}

}  // namespace

Stage::Stage(const StageSetup& setup, Device& device) : parts_(std::make_unique<Parts>(checked(setup), device)) {
  begin_step();
}
Stage::~Stage() = default;
Stage::Stage(Stage&&) noexcept = default;

const StageSetup& Stage::setup() const { return parts_->setup; }
const ParameterTable& Stage::table() const { return parts_->table; }

std::int64_t Stage::message_elements() const {
  const StageSetup& s = parts_->setup;
  return static_cast<std::int64_t>(s.microbatch_size) * s.shape.context * s.shape.channels;
}

void Stage::begin_step() {
  parts_->store.clear_gradients();
  parts_->store.refresh_factors();
  std::visit(
      [](auto& list) {
        for (auto& chunk : list) chunk.begin_step();
      },
      parts_->chunks);
}

void Stage::forward(ModelChunkId chunk, MicrobatchId microbatch, const StageTokens& tokens,
                    std::span<const float> input, std::span<float> output, const Progress& between_layers,
                    ForwardMode mode) {
  const double loss =
      parts_->on(chunk, [&](auto& c) { return c.forward(microbatch, tokens, input, output, between_layers, mode); });
  if (chunk == parts_->setup.cut.last()) parts_->losses[microbatch] = loss;
}

double Stage::loss(MicrobatchId microbatch) const {
  const auto it = parts_->losses.find(microbatch);
  if (it == parts_->losses.end())
    throw Error(ExitCode::bug, fmt::format("this stage has no loss of microbatch {}", microbatch.value));
  return it->second;
}

void Stage::backward_input(ModelChunkId chunk, MicrobatchId microbatch, std::span<const float> output_gradient,
                           std::span<float> input_gradient, const Progress& between_layers) {
  parts_->on(chunk, [&](auto& c) { c.backward_input(microbatch, output_gradient, input_gradient, between_layers); });
}

void Stage::backward_weight(ModelChunkId chunk, MicrobatchId microbatch, const Progress& between_layers) {
  parts_->on(chunk, [&](auto& c) { c.backward_weight(microbatch, between_layers); });
}

void Stage::backward(ModelChunkId chunk, MicrobatchId microbatch, std::span<const float> output_gradient,
                     std::span<float> input_gradient, const Progress& between_layers) {
  parts_->on(chunk, [&](auto& c) { c.backward(microbatch, output_gradient, input_gradient, between_layers); });
}

std::span<const StageTensor> Stage::tensors() const { return parts_->store.tensors(); }
const StageTensor* Stage::find(std::string_view name) const { return parts_->store.find(name); }

Stage::TiedGradient Stage::tied_gradient() { return parts_->store.tied(); }

void Stage::add_tied_gradients() {
  const TiedGradient tied = parts_->store.tied();
  add_into(parts_->device.kernels(), tied.own.data(), tied.other.data(), static_cast<std::int64_t>(tied.other.size()));
}

Bytes Stage::activation_bytes_in_use() const {
  Bytes sum;
  std::visit(
      [&](const auto& list) {
        for (const auto& chunk : list) sum += chunk.bytes_in_use();
      },
      parts_->chunks);
  return sum;
}

Bytes Stage::activation_bytes_reserved() const {
  Bytes sum;
  std::visit(
      [&](const auto& list) {
        for (const auto& chunk : list) sum += chunk.bytes_reserved();
      },
      parts_->chunks);
  return sum;
}

}  // namespace pipefill
