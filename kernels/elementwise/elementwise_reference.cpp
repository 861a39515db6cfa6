// Plain elementwise ops: the oracle of the fast ones.
#include "kernels/elementwise/elementwise.hpp"

namespace pipefill::reference {

void fill(float* x, float value, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = value;
}

void add_into(float* sum, const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

void scale(float* x, float factor, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

}  // namespace pipefill::reference
