// What the lower floors are told of a RunConfig: their own plain values, made in one place, so that check, plan and
// train cannot come to different ones.
#pragma once

#include "config/run_config.hpp"
#include "data/token_data.hpp"
#include "model/layer_cut.hpp"
#include "model/model_shape.hpp"

namespace pipefill {

/// SharedError (69) when device.kind asks for what this build does not have.
void expect_device_kind(const RunConfig& config);

DataDescription data_description(const RunConfig& config);

/// model.vocab, or where that is auto the data source's own; `data_vocab` is TokenData::vocab().
ModelShape model_shape(const RunConfig& config, int data_vocab);

/// parallel.layers, or where that is auto the cut by cost. Throws DeckError for more stages than can hold anything.
LayerCut layer_cut(const RunConfig& config, const ModelShape& shape, int stages);

}  // namespace pipefill
