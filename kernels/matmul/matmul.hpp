// Matrix products, row-major, fp32 or bf16 in and fp32 out. Same bits for the same inputs, shape and thread count.
#pragma once

#include <cstdint>

#include "kernels/bf16.hpp"
#include "kernels/context.hpp"

namespace pipefill {

enum class Transpose { no, yes };  ///< yes: the matrix lies transposed in memory

/// C (m,n) = op(A) (m,k) * op(B) (k,n). A leading dimension is the distance of two rows in memory; 0 means dense.
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  Transpose a = Transpose::no;  ///< yes: A is stored (k,m)
  Transpose b = Transpose::no;  ///< yes: B is stored (n,k)
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  Accumulate accumulate = Accumulate::no;

  std::int64_t row_a() const { return lda != 0 ? lda : (a == Transpose::no ? k : m); }
  std::int64_t row_b() const { return ldb != 0 ? ldb : (b == Transpose::no ? n : k); }
  std::int64_t row_c() const { return ldc != 0 ? ldc : n; }
};

void matmul(const KernelContext& ctx, float* c /* (m,n) */, const float* a /* (m,k) */, const float* b /* (k,n) */,
            const MatmulShape& shape);

/// fp32 accumulation; right on every CPU, fast where it has bf16 instructions.
void matmul(const KernelContext& ctx, float* c /* (m,n) */, const Bf16* a /* (m,k) */, const Bf16* b /* (k,n) */,
            const MatmulShape& shape);

/// Whether bf16 products run on the CPU's own bf16 instructions (else they are products of converted panels).
bool cpu_has_fast_bf16();

namespace reference {
void matmul(float* c, const float* a, const float* b, const MatmulShape& shape);
void matmul(float* c, const Bf16* a, const Bf16* b, const MatmulShape& shape);
}  // namespace reference

}  // namespace pipefill
