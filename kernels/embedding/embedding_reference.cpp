// Plain embedding: the oracle of the fast one.
#include "kernels/embedding/embedding.hpp"

namespace pipefill::reference {

void embedding_forward(float* out, const std::int32_t* tokens, const float* token_table, const float* position_table,
                       std::int64_t B, std::int64_t T, std::int64_t C) {
  for (std::int64_t row = 0; row < B * T; ++row) {
    for (std::int64_t c = 0; c < C; ++c) {
      out[row * C + c] = token_table[tokens[row] * C + c] + position_table[(row % T) * C + c];
    }
  }
}

void embedding_backward(float* dtoken_table, float* dposition_table, const float* dout, const std::int32_t* tokens,
                        std::int64_t B, std::int64_t T, std::int64_t C) {
  for (std::int64_t row = 0; row < B * T; ++row) {
    for (std::int64_t c = 0; c < C; ++c) {
      dtoken_table[tokens[row] * C + c] += dout[row * C + c];
      dposition_table[(row % T) * C + c] += dout[row * C + c];
    }
  }
}

}  // namespace pipefill::reference
