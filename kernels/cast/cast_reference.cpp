// Plain casts: the oracle of the fast ones.
#include "kernels/cast/cast.hpp"

namespace pipefill::reference {

void cast(Bf16* out, const float* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = to_bf16(in[i]);
}

void cast(float* out, const Bf16* in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = to_float(in[i]);
}

}  // namespace pipefill::reference
