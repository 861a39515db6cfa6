// The kind `train`: trains a small transformer of its own with AdamW. Several such jobs make a sweep.
#pragma once

#include <pipefill/fill_job.h>

namespace pipefill {

/// with: steps:, microbatches: x microbatch_size: sequences per step; files: [globs] and source: or, without files, the
/// synthetic source; learning_rate: warm_up: decay: final_fraction: beta1: beta2: weight_decay: clip:; checkpoint: or
/// layers: channels: heads: context: vocab: tied:; seed: data_seed:. One configuration: the batch is part of the work.
/// Output: weights.h5 (/parameters/<name>, as in the program's checkpoints) and loss.jsonl, one line per step.
const pipefill_fill_kind* train_kind();

}  // namespace pipefill
