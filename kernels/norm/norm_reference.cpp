// Plain sum of squares: the oracle of the fast one.
#include "kernels/norm/norm.hpp"

namespace pipefill::reference {

double squared_norm(const float* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace pipefill::reference
