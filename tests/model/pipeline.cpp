// The pipeline in one thread.
#include "pipeline.hpp"

#include <algorithm>

namespace pipefill::testing_support {

Pipeline::Pipeline(const PipelineSetup& setup)
    : setup_(setup), cut_(cut_layers_explicitly(setup.shape, static_cast<int>(setup.layers.size()), setup.layers)) {
  progress_ = [this] { ++progress_calls_; };
  for (int s = 0; s < setup.stages; ++s) {
    StageSetup stage;
    stage.shape = setup.shape;
    stage.cut = cut_;
    stage.microbatch_size = setup.microbatch_size;
    stage.gradient_scale = 1.0 / (setup.microbatch_size * setup.shape.context * setup.microbatches);
    stage.seed = 7;
    for (int c = s; c < cut_.size(); c += setup.stages) stage.chunks.push_back({c});
    stage.slots.assign(stage.chunks.size(), setup.microbatches);
    if (setup.kind == BackwardKind::split) stage.weight_slots = stage.slots;
    devices_.push_back(std::make_unique<CpuDevice>(setup.threads, Bytes{0}));
    stages_.push_back(std::make_unique<Stage>(stage, *devices_.back()));
    optimizers_.push_back(std::make_unique<Adamw>(setup.adamw, *stages_.back(), *devices_.back()));
  }
}

std::vector<std::int32_t> Pipeline::inputs(std::int64_t step, int microbatch) const {
  // Sequence q of the global batch is the same however the batch is divided into microbatches.
  std::vector<std::int32_t> tokens;
  for (int b = 0; b < setup_.microbatch_size; ++b) {
    const std::int64_t q = static_cast<std::int64_t>(microbatch) * setup_.microbatch_size + b;
    for (int t = 0; t < setup_.shape.context; ++t)
      tokens.push_back(
          static_cast<std::int32_t>((17 * q * q + 5 * t * t + 31 * step + 3 * q * t) % setup_.shape.vocab));
  }
  return tokens;
}

std::vector<std::int32_t> Pipeline::targets(std::int64_t step, int microbatch) const {
  std::vector<std::int32_t> tokens = inputs(step, microbatch);
  for (std::int32_t& token : tokens) token = (7 * token + 3) % setup_.shape.vocab;
  return tokens;
}

void Pipeline::forward_all(std::int64_t step, MicrobatchId microbatch, ForwardMode mode) {
  const std::vector<std::int32_t> in = inputs(step, microbatch.value), out = targets(step, microbatch.value);
  std::vector<float> message;
  for (int c = 0; c < cut_.size(); ++c) {
    const ModelChunkId chunk{c};
    Stage& stage = stage_of(chunk);
    const std::vector<float> input = message;
    message.assign(chunk == cut_.last() ? 0 : static_cast<std::size_t>(stage.message_elements()), 0.0F);
    stage.forward(chunk, microbatch, {in, out}, input, message, progress_, mode);
  }
}

void Pipeline::run_gradients(std::int64_t step) {
  for (auto& stage : stages_) stage->begin_step();
  for (int m = 0; m < setup_.microbatches; ++m) forward_all(step, {m}, ForwardMode::training);
  for (int m = 0; m < setup_.microbatches; ++m) {
    std::vector<float> message;
    for (int c = cut_.size(); c-- > 0;) {
      const ModelChunkId chunk{c};
      Stage& stage = stage_of(chunk);
      const std::vector<float> gradient = message;
      message.assign(c == 0 ? 0 : static_cast<std::size_t>(stage.message_elements()), 0.0F);
      if (setup_.kind == BackwardKind::whole) {
        stage.backward(chunk, {m}, gradient, message, progress_);
      } else {
        stage.backward_input(chunk, {m}, gradient, message, progress_);
      }
    }
  }
  if (setup_.kind == BackwardKind::split) {
    for (int c = 0; c < cut_.size(); ++c)
      for (int m = 0; m < setup_.microbatches; ++m) stage_of({c}).backward_weight({c}, {m}, progress_);
  }
  Stage &first = stage_of(cut_.first()), &last = stage_of(cut_.last());
  if (&first != &last) {
    const Stage::TiedGradient a = first.tied_gradient(), b = last.tied_gradient();
    for (std::size_t i = 0; i < a.own.size(); ++i) a.own[i] = b.own[i] = a.own[i] + b.own[i];  // look-up + head
  }
  for (auto& stage : stages_) stage->add_tied_gradients();
  loss_ = 0;
  for (int m = 0; m < setup_.microbatches; ++m) loss_ += last.loss({m});
  loss_ /= setup_.microbatches * setup_.microbatch_size * setup_.shape.context;
}

double Pipeline::update(std::int64_t step, double learning_rate, double clip) {
  const ParameterTable& table = stage(0).table();
  std::vector<double> sums(static_cast<std::size_t>(total_blocks(table)));
  for (int s = 0; s < setup_.stages; ++s) {
    const std::vector<std::int64_t> blocks = norm_blocks(table, stage(s).setup().chunks, {0}, 1);
    const std::vector<double> mine = optimizer(s).block_square_sums();
    for (std::size_t i = 0; i < blocks.size(); ++i) sums[static_cast<std::size_t>(blocks[i])] = mine.at(i);
  }
  const double norm = global_norm(table, sums);
  for (int s = 0; s < setup_.stages; ++s) optimizer(s).update(step, learning_rate, clip_scale(norm, clip));
  return norm;
}

std::map<std::string, std::vector<float>> Pipeline::gradients() const {
  std::map<std::string, std::vector<float>> all;
  for (const auto& stage : stages_)
    for (const StageTensor& t : stage->tensors()) all[t.spec.name].assign(t.gradient.begin(), t.gradient.end());
  return all;
}

std::map<std::string, std::vector<float>> Pipeline::values() const {
  std::map<std::string, std::vector<float>> all;
  for (const auto& stage : stages_)
    for (const StageTensor& t : stage->tensors()) all[t.spec.name].assign(t.values.begin(), t.values.end());
  return all;
}

}  // namespace pipefill::testing_support
