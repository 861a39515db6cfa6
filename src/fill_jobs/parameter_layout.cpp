// Offsets by walking the parameter table.
#include "fill_jobs/parameter_layout.hpp"

#include <fmt/format.h>

#include <map>
#include <string>

#include "model/layer_cut.hpp"

namespace pipefill {

ParameterLayout::ParameterLayout(const ModelShape& model)
    : shape(model), table(parameter_table(model, cut_layers_by_cost(model, 1))) {
  std::map<std::string, std::int64_t> by_name;
  for (const TensorSpec& tensor : table) {
    offsets.push_back(floats);
    by_name[tensor.name] = floats;
    floats += (tensor.elements() + 15) / 16 * 16;
  }
  const auto pair = [&](const std::string& name) {
    return NormOffsets{by_name.at(name + ".weight"), by_name.at(name + ".bias")};
  };
  token_embedding = by_name.at("token_embedding.weight");
  position_embedding = by_name.at("position_embedding.weight");
  for (int l = 0; l < shape.layers; ++l) {
    const std::string block = fmt::format("block.{}.", l);
    layers.push_back({pair(block + "attention_norm"), pair(block + "mlp_norm"), pair(block + "attention.qkv"),
                      pair(block + "attention.projection"), pair(block + "mlp.expand"),
                      pair(block + "mlp.projection")});
  }
  final_norm = pair("final_norm");
  head = shape.tied ? token_embedding : by_name.at("head.weight");
}

}  // namespace pipefill
