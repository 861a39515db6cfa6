// Plain matrix product, double accumulation: the oracle of the fast one.
#include "kernels/matmul/matmul.hpp"

namespace pipefill::reference {

namespace {

float value(float x) { return x; }
float value(Bf16 x) { return to_float(x); }

template <class T>
void product(float* c, const T* a, const T* b, const MatmulShape& s) {
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = s.accumulate == Accumulate::yes ? static_cast<double>(c[i * s.row_c() + j]) : 0.0;
      for (std::int64_t l = 0; l < s.k; ++l) {
        const T x = s.a == Transpose::no ? a[i * s.row_a() + l] : a[l * s.row_a() + i];
        const T y = s.b == Transpose::no ? b[l * s.row_b() + j] : b[j * s.row_b() + l];
        sum += static_cast<double>(value(x)) * static_cast<double>(value(y));
      }
      c[i * s.row_c() + j] = static_cast<float>(sum);
    }
  }
}

}  // namespace

void matmul(float* c, const float* a, const float* b, const MatmulShape& shape) { product(c, a, b, shape); }
void matmul(float* c, const Bf16* a, const Bf16* b, const MatmulShape& shape) { product(c, a, b, shape); }

}  // namespace pipefill::reference
