// What a training job keeps between chunks. Parameters, moments and gradients are there twice: a chunk reads one copy
// and writes the other, so that it can be repeated. Everything else is written by one piece and only read by later
// ones.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fill_jobs/half_layer.hpp"
#include "fill_jobs/job_state.hpp"
#include "fill_jobs/parameter_layout.hpp"
#include "fill_jobs/train_pieces.hpp"

namespace pipefill {

/// Sizes of a job: B sequences per microbatch, M microbatches, `steps` steps.
struct TrainSizes {
  std::int64_t B = 1, M = 1, steps = 1;
};

/// Flat arrays in a ParameterLayout's order. Step s (from 1) reads copy (s-1)%2 and writes copy s%2.
struct ParameterCopy {
  float *values, *moment1, *moment2;
};

/// Microbatch m reads copy (m-1)%2 and writes copy m%2.
struct GradientCopy {
  float* flat;
  float* look_up;  ///< (V,C) of the token embedding's look-up; in `flat` itself where the head has its own weight
};

struct TrainLayer {
  float* input;  ///< (N,C) residual stream, as `middle`
  AttentionActivations attention;
  float* middle;
  MlpActivations mlp;
};

struct TrainState {
  StateHead* head;
  std::array<ParameterCopy, 2> parameters;
  std::array<GradientCopy, 2> gradients;  ///< of one microbatch per step: both are the same memory
  double* squares;                        ///< per norm piece
  float* row_losses;                      ///< (M,N)
  double *losses, *norms;                 ///< (steps)

  // Of the microbatch at work, N = B T rows.
  std::int32_t *inputs, *targets;
  std::vector<TrainLayer> layers;
  float* output;               ///< (N,C) residual stream behind the last layer
  float *norm, *mean, *rstd;   ///< of the final norm
  float* logits;               ///< (N, logit_stride), in the end their gradient
  float* norm_gradient;        ///< (N,C)
  std::array<float*, 2> flow;  ///< (N,C) gradient of the residual stream between layers: read one, write the other
  // Gradients within the layer at work.
  float* middle;          ///< (N,C)
  float* expanded;        ///< (N,4C)
  float* mlp_norm;        ///< (N,C)
  float* qkv;             ///< (N,3C)
  float* attention_norm;  ///< (N,C)

  static TrainState carve(Carver& carver, const ParameterLayout& layout, const TrainSizes& sizes,
                          std::int64_t norm_pieces);
};

}  // namespace pipefill
