// fp32 products through oneDNN's sgemm. Measured against OpenBLAS (tests/bench/bench_gemm.cpp) over a whole step
// neither is clearly ahead; oneDNN shares our OpenMP team instead of bringing a second pool of threads that fights it.
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <string>

#include "kernels/matmul/sgemm.hpp"
#include "kernels/team_size.hpp"

namespace pipefill {

void sgemm(int threads, float* c, const float* a, const float* b, const MatmulShape& s) {
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0) {  // oneDNN refuses a leading dimension of 0
    for (std::int64_t i = 0; i < s.m && s.accumulate == Accumulate::no; ++i) std::fill_n(c + i * s.row_c(), s.n, 0.0F);
    return;
  }
  const TeamSize team(threads);
  const dnnl_status_t status =
      dnnl_sgemm(s.a == Transpose::yes ? 'T' : 'N', s.b == Transpose::yes ? 'T' : 'N', s.m, s.n, s.k, 1.0F, a,
                 s.row_a(), b, s.row_b(), s.accumulate == Accumulate::yes ? 1.0F : 0.0F, c, s.row_c());
  if (status != dnnl_success) {
    throw KernelError("oneDNN refused an sgemm of m " + std::to_string(s.m) + ", n " + std::to_string(s.n) + ", k " +
                      std::to_string(s.k) + " with status " + std::to_string(static_cast<int>(status)));
  }
}

void matmul(const KernelContext& ctx, float* c, const float* a, const float* b, const MatmulShape& shape) {
  sgemm(ctx.threads(), c, a, b, shape);
}

}  // namespace pipefill
