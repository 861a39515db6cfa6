// Moments, block sums and the update, tensor by tensor in table order.
#include "model/adamw.hpp"

#include <algorithm>

#include "kernels/adamw/adamw.hpp"
#include "kernels/norm/norm.hpp"
#include "model/carver.hpp"

namespace pipefill {

Adamw::Adamw(const AdamwSettings& settings, Stage& stage, Device& device)
    : settings_(settings), stage_(stage), kernels_(device.kernels()) {
  const auto rows_of = [&](const TensorSpec& tensor) {
    return settings.shard == OptimizerShard::yes ? owned_rows(tensor, settings.replica, settings.replicas)
                                                 : RowRange{0, tensor.rows()};
  };
  Carver sizes;
  for (const StageTensor& tensor : stage.tensors()) {
    const std::int64_t elements = rows_of(tensor.spec).count * tensor.spec.columns();
    sizes.take<float>(elements);
    sizes.take<float>(elements);
  }
  storage_ = device.allocate(sizes.taken(), "the optimizer's moments");
  Carver carver(storage_);
  for (const StageTensor& tensor : stage.tensors()) {
    const RowRange rows = rows_of(tensor.spec);
    const auto elements = static_cast<std::size_t>(rows.count * tensor.spec.columns());
    float* first = carver.take<float>(static_cast<std::int64_t>(elements));
    float* second = carver.take<float>(static_cast<std::int64_t>(elements));
    moments_.push_back({rows, {first, elements}, {second, elements}});
  }
}

std::vector<double> Adamw::block_square_sums() const {
  struct Block {
    const float* gradient;
    std::int64_t elements;
  };
  std::vector<Block> blocks;
  const std::vector<ModelChunkId>& chunks = stage_.setup().chunks;
  for (const StageTensor& tensor : stage_.tensors()) {
    if (std::find(chunks.begin(), chunks.end(), tensor.spec.chunk) == chunks.end()) continue;
    const RowRange owned = owned_rows(tensor.spec, settings_.replica, settings_.replicas);
    const std::int64_t step = block_rows(tensor.spec), columns = tensor.spec.columns();
    for (std::int64_t row = owned.first; row < owned.first + owned.count; row += step) {
      const std::int64_t rows = std::min(step, tensor.spec.rows() - row);
      blocks.push_back({tensor.gradient.data() + row * columns, rows * columns});
    }
  }
  std::vector<double> sums(blocks.size());
  const auto count = static_cast<std::int64_t>(blocks.size());
#pragma omp parallel num_threads(kernels_.threads())
  {
    const KernelContext alone(1);  // a block is one thread's work, whatever the team: its sum has the same bits
#pragma omp for schedule(static)
    for (std::int64_t b = 0; b < count; ++b) {
      const auto i = static_cast<std::size_t>(b);
      sums[i] = squared_norm(alone, blocks[i].gradient, blocks[i].elements);
    }
  }
  return sums;
}

void Adamw::update(std::int64_t step, double learning_rate, double gradient_scale) {
  AdamwStep s;
  s.learning_rate = static_cast<float>(learning_rate);
  s.beta1 = static_cast<float>(settings_.beta1);
  s.beta2 = static_cast<float>(settings_.beta2);
  s.epsilon = static_cast<float>(settings_.epsilon);
  s.gradient_scale = static_cast<float>(gradient_scale);
  s.step = step;
  const std::span<const StageTensor> tensors = stage_.tensors();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Moments& m = moments_[t];
    if (m.rows.count == 0) continue;
    s.weight_decay = tensors[t].spec.decay == Decay::yes ? static_cast<float>(settings_.weight_decay) : 0.0F;
    const std::int64_t columns = tensors[t].spec.columns(), offset = m.rows.first * columns;
    adamw_update(kernels_, tensors[t].values.data() + offset, m.first.data(), m.second.data(),
                 tensors[t].gradient.data() + offset, m.rows.count * columns, s);
  }
}

}  // namespace pipefill
