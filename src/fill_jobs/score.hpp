// The kind `score`: batch inference. A transformer gives every sequence of a text its negative log-likelihood.
#pragma once

#include <pipefill/fill_job.h>

namespace pipefill {

/// with: text: [globs] and source: bytes|llmc|nanogpt|megatron, or synthetic: N sequences; batch: [1, 2, 4] offers
/// those configurations; checkpoint: or layers: channels: heads: context: vocab: tied:; seed: data_seed:.
/// A text is cut into sequences of T+1 tokens that share their ends; its last tokens that make up no whole sequence
/// are not scored. Output nll.h5: /sequence (number in the text), /nll (nats, sum over the T targets), /tokens.
const pipefill_fill_kind* score_kind();

}  // namespace pipefill
