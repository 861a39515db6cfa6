#include "config/parts.hpp"

#include "base/error.hpp"

namespace pipefill {

void expect_device_kind(const RunConfig& config) {
  if (config.device.kind == DeviceKind::cuda)
    throw SharedError(ExitCode::no_device,
                      "device.kind is cuda, and this version computes on CPUs only; set device.kind to auto or cpu");
}

DataDescription data_description(const RunConfig& config) {
  const bool synthetic = config.data.source == TokenFormat::synthetic;
  return {.format = config.data.source,
          .files = config.data.files,
          .vocab = synthetic ? config.data.vocab : config.model.vocab,
          .seed = config.run.seed,
          .validation_fraction = config.data.validation_fraction};
}

ModelShape model_shape(const RunConfig& config, int data_vocab) {
  const ModelSection& model = config.model;
  return {.layers = model.layers,
          .channels = model.channels,
          .heads = model.heads,
          .context = model.context,
          .vocab = model.vocab != 0 ? model.vocab : data_vocab,
          .tied = model.tied,
          .compute = model.compute};
}

LayerCut layer_cut(const RunConfig& config, const ModelShape& shape, int stages) {
  if (config.parallel.layers.empty()) return cut_layers_by_cost(shape, stages);
  return cut_layers_explicitly(shape, stages, config.parallel.layers);
}

}  // namespace pipefill
