// The kind `generate`: batched sampling of text from a transformer with a key/value cache.
#pragma once

#include <pipefill/fill_job.h>

namespace pipefill {

/// with: prompts: [texts], prompt_file: one per line, or prompt_tokens: ["1 2 3", ...] for a model whose tokens are not
/// bytes; tokens: to generate after each; temperature: (0: always the likeliest); top_k: (0: all); batch: [1, 4, 8]
/// offers those configurations; checkpoint: or layers: channels: heads: context: vocab: tied:; seed:.
/// Output texts.jsonl: per prompt, in their order, {"index", "prompt", "text", "prompt_tokens", "tokens"}; the texts
/// are left out where tokens are not bytes. The random number of a token is a function of (seed, prompt, position).
const pipefill_fill_kind* generate_kind();

}  // namespace pipefill
