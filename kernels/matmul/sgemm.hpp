// The fp32 product with its own number of threads: 1 for ops that run one product per thread.
#pragma once

#include "kernels/matmul/matmul.hpp"

namespace pipefill {

void sgemm(int threads, float* c /* (m,n) */, const float* a /* (m,k) */, const float* b /* (k,n) */,
           const MatmulShape& shape);

}  // namespace pipefill
