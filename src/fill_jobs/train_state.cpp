// The layout of a training job's state.
#include "fill_jobs/train_state.hpp"

namespace pipefill {

TrainState TrainState::carve(Carver& carver, const ParameterLayout& layout, const TrainSizes& sizes,
                             std::int64_t norm_pieces) {
  const ModelShape& shape = layout.shape;
  const std::int64_t N = sizes.B * shape.context, C = shape.channels;
  TrainState s{};
  s.head = StateHead::carve(carver);
  for (ParameterCopy& copy : s.parameters) {
    copy.values = carver.take<float>(layout.floats);
    copy.moment1 = carver.take<float>(layout.floats);
    copy.moment2 = carver.take<float>(layout.floats);
  }
  const auto gradients = [&] {
    float* flat = carver.take<float>(layout.floats);
    float* look_up = shape.tied ? carver.take<float>(std::int64_t{shape.vocab} * C) : flat + layout.token_embedding;
    return GradientCopy{flat, look_up};
  };
  s.gradients[0] = gradients();
  s.gradients[1] = sizes.M > 1 ? gradients() : s.gradients[0];
  s.squares = carver.take<double>(norm_pieces);
  s.row_losses = carver.take<float>(sizes.M * N);
  s.losses = carver.take<double>(sizes.steps);
  s.norms = carver.take<double>(sizes.steps);

  s.inputs = carver.take<std::int32_t>(N);
  s.targets = carver.take<std::int32_t>(N);
  for (int l = 0; l < shape.layers; ++l) {
    TrainLayer layer{};
    layer.input = carver.take<float>(N * C);
    layer.attention = AttentionActivations::carve(carver, shape, N);
    layer.middle = carver.take<float>(N * C);
    layer.mlp = MlpActivations::carve(carver, shape, N);
    s.layers.push_back(layer);
  }
  s.output = carver.take<float>(N * C);
  s.norm = carver.take<float>(N * C);
  s.mean = carver.take<float>(N);
  s.rstd = carver.take<float>(N);
  s.logits = carver.take<float>(N * shape.logit_stride());
  s.norm_gradient = carver.take<float>(N * C);
  for (float*& flow : s.flow) flow = carver.take<float>(N * C);
  s.middle = carver.take<float>(N * C);
  s.expanded = carver.take<float>(N * 4 * C);
  s.mlp_norm = carver.take<float>(N * C);
  s.qkv = carver.take<float>(N * 3 * C);
  s.attention_norm = carver.take<float>(N * C);
  return s;
}

}  // namespace pipefill
