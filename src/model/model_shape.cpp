// Which sizes make a model.
#include "model/model_shape.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace pipefill {

void check_shape(const ModelShape& shape) {
  const auto positive = [](const char* key, int value) {
    if (value < 1) throw DeckError(fmt::format("model.{} is {}; it must be at least 1", key, value));
  };
  if (shape.layers < 0) throw DeckError(fmt::format("model.layers is {}; it must not be negative", shape.layers));
  positive("channels", shape.channels);
  positive("heads", shape.heads);
  positive("context", shape.context);
  positive("vocab", shape.vocab);
  if (shape.channels % shape.heads != 0) {
    throw DeckError(
        fmt::format("model.channels {} is not a multiple of model.heads {}: every head has channels / heads "
                    "channels. Use {} or {} channels.",
                    shape.channels, shape.heads, shape.channels / shape.heads * shape.heads,
                    (shape.channels / shape.heads + 1) * shape.heads));
  }
}

}  // namespace pipefill
