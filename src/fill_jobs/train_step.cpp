// Each piece reads what earlier pieces wrote and overwrites nothing it reads; see train_state.hpp.
#include "fill_jobs/train_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "kernels/adamw/adamw.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/bias_gelu/bias_gelu.hpp"
#include "kernels/cross_entropy/cross_entropy.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/layernorm/layernorm.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/norm/norm.hpp"
#include "model/row_blocks.hpp"

namespace pipefill {
namespace {

struct Scratch {
  float* mixed_gradient;
  float* sum;

  static Scratch carve(Carver& carver, const ParameterLayout& layout, std::int64_t B) {
    std::int64_t longest = 0;
    for (const TrainPiece& piece : cut_step(layout, B, 1))
      if (piece.part == TrainPart::norm || piece.part == TrainPart::update)
        longest = std::max(longest, piece.range.count);
    return {carver.take<float>(B * layout.shape.context * layout.shape.channels), carver.take<float>(longest)};
  }
};

}  // namespace

TrainStep::TrainStep(const ParameterLayout& layout, const TrainSettings& settings, const TokenData& data,
                     Device& device, const TrainState& state, std::int64_t norm_pieces)
    : layout_(layout),
      shape_(layout.shape),
      settings_(settings),
      data_(data),
      ctx_(device.kernels()),
      state_(state),
      norm_pieces_(norm_pieces),
      B_(settings.sizes.B),
      T_(shape_.context),
      C_(shape_.channels),
      N_(B_ * T_),
      last_(shape_.layers - 1),
      memory_(device.allocate(Bytes{memory(layout, B_)}, "the scratch memory of a training fill job")) {
  Carver carver(memory_);
  const Scratch scratch = Scratch::carve(carver, layout, B_);
  mixed_gradient_ = scratch.mixed_gradient;
  sum_ = scratch.sum;
}

std::int64_t TrainStep::memory(const ParameterLayout& layout, std::int64_t B) {
  Carver carver;
  Scratch::carve(carver, layout, B);
  return carver.taken().count;
}

void TrainStep::run(const TrainPiece& piece, std::int64_t step, std::int64_t index) {
  step_ = static_cast<std::size_t>(step);
  const auto l = static_cast<std::size_t>(piece.layer);
  const TrainLayer* layer = state_.layers.empty() ? nullptr : &state_.layers[l];
  const LayerOffsets at = layout_.layers.empty() ? LayerOffsets{} : layout_.layers[l];
  const std::int64_t first = piece.range.first;
  switch (piece.part) {
    case TrainPart::embedding:
      return embed(piece, step);
    case TrainPart::attention: {
      const std::int64_t row = first * T_;
      return attention_half(ctx_, shape_, parameters(), at, layer->attention.from(shape_, row),
                            layer->middle + row * C_, layer->input + row * C_, piece.range.count, T_);
    }
    case TrainPart::mlp: {
      float* output = piece.layer == last_ ? state_.output : state_.layers[l + 1].input;
      return mlp_half(ctx_, shape_, parameters(), at, layer->mlp.from(shape_, first), output + first * C_,
                      layer->middle + first * C_, piece.range.count);
    }
    case TrainPart::head:
      return head(piece);
    case TrainPart::head_weight:
      if (first == 0)
        norm_gradient(piece, layout_.final_norm, state_.norm_gradient, state_.output, state_.mean, state_.rstd);
      return weight_gradient(piece, {layout_.head, -1}, state_.logits, shape_.logit_stride(), state_.norm, C_);
    case TrainPart::mlp_input:
      return mlp_input(piece);
    case TrainPart::contract:
      return weight_gradient(piece, at.contract, flow_out(piece.layer), C_, layer->mlp.gelu, 4 * C_);
    case TrainPart::expand:
      if (first == 0)
        norm_gradient(piece, at.mlp_norm, state_.mlp_norm, layer->middle, layer->mlp.mean, layer->mlp.rstd);
      return weight_gradient(piece, at.expand, state_.expanded, 4 * C_, layer->mlp.norm, C_);
    case TrainPart::attention_input:
      return attention_input(piece);
    case TrainPart::projection:
      return weight_gradient(piece, at.projection, state_.middle, C_, layer->attention.mixed, C_);
    case TrainPart::qkv:
      if (first == 0)
        norm_gradient(piece, at.attention_norm, state_.attention_norm, layer->input, layer->attention.mean,
                      layer->attention.rstd);
      return weight_gradient(piece, at.qkv, state_.qkv, 3 * C_, layer->attention.norm, C_);
    case TrainPart::embedding_weight:
      return embedding_weight(piece);
    case TrainPart::norm:
      return norm(piece, index);
    case TrainPart::update:
      return update(piece, step, index);
  }
}

void TrainStep::embed(const TrainPiece& piece, std::int64_t step) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(T_ + 1));
  const std::int64_t sample = ((step - 1) * settings_.sizes.M + piece.microbatch) * B_;
  for (std::int64_t b = 0; b < B_; ++b) {
    data_.read_training(sample + b, tokens);
    std::copy_n(tokens.begin(), T_, state_.inputs + b * T_);
    std::copy_n(tokens.begin() + 1, T_, state_.targets + b * T_);
  }
  float* output = state_.layers.empty() ? state_.output : state_.layers.front().input;
  embedding_forward(ctx_, output, state_.inputs, parameters() + layout_.token_embedding,
                    parameters() + layout_.position_embedding, B_, T_, C_);
}

void TrainStep::head(const TrainPiece& piece) {
  const std::int64_t n = piece.range.first, rows = piece.range.count, V = shape_.vocab, stride = shape_.logit_stride();
  const float *p = parameters(), *gamma = p + layout_.final_norm.weight;
  float *norm = state_.norm + n * C_, *mean = state_.mean + n, *rstd = state_.rstd + n;
  float *logits = state_.logits + n * stride, *gradient = state_.norm_gradient + n * C_;
  layernorm_forward(ctx_, norm, mean, rstd, state_.output + n * C_, gamma, p + layout_.final_norm.bias, rows, C_);
  matmul(ctx_, logits, norm, p + layout_.head, {.m = rows, .n = V, .k = C_, .b = Transpose::yes, .ldc = stride});
  const auto scale = static_cast<float>(1.0 / static_cast<double>(settings_.sizes.M * N_));
  cross_entropy_forward_backward(ctx_, state_.row_losses + piece.microbatch * N_ + n, logits, state_.targets + n, scale,
                                 rows, V, stride);
  matmul(ctx_, gradient, logits, p + layout_.head, {.m = rows, .n = C_, .k = V, .lda = stride});
  layernorm_backward_input(ctx_, state_.flow[0] + n * C_, gradient, state_.output + n * C_, mean, rstd, gamma, rows,
                           C_);
}

void TrainStep::mlp_input(const TrainPiece& piece) {
  const auto l = static_cast<std::size_t>(piece.layer);
  const LayerOffsets& at = layout_.layers[l];
  const std::int64_t n = piece.range.first, rows = piece.range.count;
  const float *p = parameters(), *out = flow_out(piece.layer) + n * C_;
  const MlpActivations a = state_.layers[l].mlp.from(shape_, n);
  float *expanded = state_.expanded + n * 4 * C_, *norm = state_.mlp_norm + n * C_, *middle = state_.middle + n * C_;
  linear_backward_input(ctx_, expanded, out, p + at.contract.weight, rows, 4 * C_, C_);
  bias_gelu_backward(ctx_, expanded, expanded, a.expanded, p + at.expand.bias, rows, 4 * C_);
  linear_backward_input(ctx_, norm, expanded, p + at.expand.weight, rows, C_, 4 * C_);
  std::copy_n(out, rows * C_, middle);
  layernorm_backward_input(ctx_, middle, norm, state_.layers[l].middle + n * C_, a.mean, a.rstd, p + at.mlp_norm.weight,
                           rows, C_, Accumulate::yes);
}

void TrainStep::attention_input(const TrainPiece& piece) {
  const auto l = static_cast<std::size_t>(piece.layer);
  const LayerOffsets& at = layout_.layers[l];
  const std::int64_t n = piece.range.first * T_, rows = piece.range.count * T_;
  const float *p = parameters(), *middle = state_.middle + n * C_;
  const AttentionActivations a = state_.layers[l].attention.from(shape_, n);
  float *qkv = state_.qkv + n * 3 * C_, *norm = state_.attention_norm + n * C_, *in = flow_in(piece.layer) + n * C_;
  linear_backward_input(ctx_, mixed_gradient_, middle, p + at.projection.weight, rows, C_, C_);
  attention_backward(ctx_, qkv, mixed_gradient_, a.qkv, a.mixed, a.log_sum_exp, piece.range.count, T_, C_,
                     shape_.heads);
  linear_backward_input(ctx_, norm, qkv, p + at.qkv.weight, rows, C_, 3 * C_);
  std::copy_n(middle, rows * C_, in);
  layernorm_backward_input(ctx_, in, norm, state_.layers[l].input + n * C_, a.mean, a.rstd,
                           p + at.attention_norm.weight, rows, C_, Accumulate::yes);
}

/// Where this microbatch's gradient goes, holding that of the microbatches before it.
float* TrainStep::begin_gradient(const TrainPiece& piece, std::int64_t offset, std::int64_t floats) {
  const auto m = static_cast<std::size_t>(piece.microbatch);
  float* into = state_.gradients[m % 2].flat + offset;
  if (m == 0)
    fill(ctx_, into, 0.0F, floats);
  else
    std::copy_n(state_.gradients[(m - 1) % 2].flat + offset, floats, into);
  return into;
}

/// Rows piece.range of the gradient of a weight (., columns) and of its bias (none: -1): sums over the N rows of
/// `outputs`, which lie `stride` apart, and `inputs` (N,columns).
void TrainStep::weight_gradient(const TrainPiece& piece, LinearOffsets at, const float* outputs, std::int64_t stride,
                                const float* inputs, std::int64_t columns) {
  const Range& rows = piece.range;
  float* weight = begin_gradient(piece, at.weight + rows.first * columns, rows.count * columns);
  matmul(ctx_, weight, outputs + rows.first, inputs,
         {.m = rows.count, .n = columns, .k = N_, .a = Transpose::yes, .lda = stride, .accumulate = Accumulate::yes});
  if (at.bias < 0) return;
  float* bias = begin_gradient(piece, at.bias + rows.first, rows.count);
  for (std::int64_t n = 0; n < N_; ++n)
    for (std::int64_t o = 0; o < rows.count; ++o) bias[o] += outputs[n * stride + rows.first + o];
}

void TrainStep::norm_gradient(const TrainPiece& piece, NormOffsets at, const float* gradient, const float* input,
                              const float* mean, const float* rstd) {
  float* weight = begin_gradient(piece, at.weight, C_);
  float* bias = begin_gradient(piece, at.bias, C_);
  layernorm_backward_weight(ctx_, weight, bias, gradient, input, mean, rstd, N_, C_);
}

/// Rows of the token table whose tokens occur get the gradients of their places, in ascending order of these.
void TrainStep::embedding_weight(const TrainPiece& piece) {
  const auto m = static_cast<std::size_t>(piece.microbatch);
  const Range& rows = piece.range;
  const float* gradient = flow_out(-1);
  float* tokens = state_.gradients[m % 2].look_up;
  if (m == 0)
    fill(ctx_, tokens + rows.first * C_, 0.0F, rows.count * C_);
  else
    std::copy_n(state_.gradients[(m - 1) % 2].look_up + rows.first * C_, rows.count * C_, tokens + rows.first * C_);
  const auto add_row = [&](float* into, std::int64_t n) {
    for (std::int64_t c = 0; c < C_; ++c) into[c] += gradient[n * C_ + c];
  };
  for (std::int64_t n = 0; n < N_; ++n) {
    const std::int64_t token = state_.inputs[n];
    if (token >= rows.first && token < rows.end()) add_row(tokens + token * C_, n);
  }
  if (rows.first > 0) return;
  float* positions = begin_gradient(piece, layout_.position_embedding, T_ * C_);
  for (std::int64_t n = 0; n < N_; ++n) add_row(positions + n % T_ * C_, n);
}

/// The step's whole gradient of a range of the flat array: the tied embedding's two sides added, in scratch memory.
const float* TrainStep::step_gradient(const Range& range) {
  const GradientCopy& last = state_.gradients[static_cast<std::size_t>(settings_.sizes.M - 1) % 2];
  const std::int64_t begin = std::max(range.first, layout_.token_embedding);
  const std::int64_t end = std::min(range.end(), layout_.token_embedding + std::int64_t{shape_.vocab} * C_);
  if (!shape_.tied || begin >= end) return last.flat + range.first;
  std::copy_n(last.flat + range.first, range.count, sum_);
  add_into(ctx_, sum_ + (begin - range.first), last.look_up + (begin - layout_.token_embedding), end - begin);
  return sum_;
}

void TrainStep::norm(const TrainPiece& piece, std::int64_t index) {
  state_.squares[index] = squared_norm(ctx_, step_gradient(piece.range), piece.range.count);
}

void TrainStep::update(const TrainPiece& piece, std::int64_t step, std::int64_t index) {
  double square = 0;
  for (std::int64_t i = 0; i < norm_pieces_; ++i) square += state_.squares[i];
  const double gradient_norm = std::sqrt(square);
  if (index == 0) {
    double sum = 0;
    for (std::int64_t n = 0; n < settings_.sizes.M * N_; ++n) sum += static_cast<double>(state_.row_losses[n]);
    const double loss = sum / static_cast<double>(settings_.sizes.M * N_);
    if (!std::isfinite(loss) || !std::isfinite(gradient_norm))
      throw DivergedError(
          fmt::format("the training diverged in step {}: its loss is {}, its gradient's norm {}. Use a "
                      "lower learning_rate or a longer warm_up.",
                      step, loss, gradient_norm));
    state_.losses[step - 1] = loss;
    state_.norms[step - 1] = gradient_norm;
  }
  const ParameterCopy &from = state_.parameters[(step_ - 1) % 2], &to = state_.parameters[step_ % 2];
  const Range& range = piece.range;
  std::copy_n(from.values + range.first, range.count, to.values + range.first);
  std::copy_n(from.moment1 + range.first, range.count, to.moment1 + range.first);
  std::copy_n(from.moment2 + range.first, range.count, to.moment2 + range.first);
  const float* gradient = step_gradient(range);
  AdamwStep how;
  how.learning_rate = static_cast<float>(settings_.rate.at(step));
  how.beta1 = static_cast<float>(settings_.beta1);
  how.beta2 = static_cast<float>(settings_.beta2);
  how.gradient_scale = static_cast<float>(clip_scale(gradient_norm, settings_.clip));
  how.step = step;
  for (std::size_t t = 0; t < layout_.table.size(); ++t) {
    const std::int64_t begin = std::max(range.first, layout_.offsets[t]);
    const std::int64_t end = std::min(range.end(), layout_.offsets[t] + layout_.table[t].elements());
    if (begin >= end) continue;
    how.weight_decay = layout_.table[t].decay == Decay::yes ? static_cast<float>(settings_.weight_decay) : 0.0F;
    adamw_update(ctx_, to.values + begin, to.moment1 + begin, to.moment2 + begin, gradient + (begin - range.first),
                 end - begin, how);
  }
}

}  // namespace pipefill
