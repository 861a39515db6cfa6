// The forward of half a transformer layer at a time, for chunks of about a millisecond: the attention half on whole
// sequences, the MLP half on any rows. The same kernels in the same order as model/block.hpp, so on the same rows the
// same bits.
#pragma once

#include <cstdint>

#include "fill_jobs/parameter_layout.hpp"
#include "kernels/context.hpp"
#include "model/carver.hpp"

namespace pipefill {

/// What the attention half makes of N = B T rows on its way.
struct AttentionActivations {
  float *norm, *mean, *rstd;  ///< (N,C), (N), (N)
  float* qkv;                 ///< (N,3C)
  float* mixed;               ///< (N,C)
  float* log_sum_exp;         ///< (B,H,T)

  static AttentionActivations carve(Carver& carver, const ModelShape& shape, std::int64_t rows);
  /// From row `row` (a multiple of T) on.
  AttentionActivations from(const ModelShape& shape, std::int64_t row) const;
};

struct MlpActivations {
  float *norm, *mean, *rstd;  ///< (N,C), (N), (N)
  float* expanded;            ///< (N,4C) before bias and GELU
  float* gelu;                ///< (N,4C)

  static MlpActivations carve(Carver& carver, const ModelShape& shape, std::int64_t rows);
  MlpActivations from(const ModelShape& shape, std::int64_t row) const;
};

/// out = in + attention(norm(in)) for B sequences of T rows. `parameters` is the flat array.
void attention_half(const KernelContext& ctx, const ModelShape& shape, const float* parameters,
                    const LayerOffsets& layer, const AttentionActivations& a, float* out /* (B,T,C) */,
                    const float* in /* (B,T,C) */, std::int64_t B, std::int64_t T);

/// out = in + mlp(norm(in)).
void mlp_half(const KernelContext& ctx, const ModelShape& shape, const float* parameters, const LayerOffsets& layer,
              const MlpActivations& a, float* out /* (N,C) */, const float* in /* (N,C) */, std::int64_t N);

}  // namespace pipefill
