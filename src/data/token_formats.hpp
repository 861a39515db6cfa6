// The file formats that tokens come in: each function checks everything about the file that can be checked without
// reading its tokens. A damaged file is FileError damaged_data with both numbers that disagree.
#pragma once

#include <string>
#include <vector>

#include "data/token_file.hpp"

namespace pipefill {

/// Ids of the tokenizers that a format stands for when the deck does not say.
inline constexpr int kGpt2Vocab = 50257, kLlama3Vocab = 128256;

TokenFile open_bytes(const std::string& path);

/// llm.c's token shard: 256 int32 (magic 20240520, version 1, count; or 20240801, version 7, count), then uint16
/// (version 1) or uint32 (version 7) tokens (llm.c, dev/data/data_common.py, write_datafile). The size must be exact.
struct LlmcShard {
  TokenFile tokens;
  int vocab;  ///< of the tokenizer that the version stands for: GPT-2's 50257 or LLaMA 3's 128256
};
LlmcShard open_llmc(const std::string& path);

/// nanoGPT's train.bin: uint16 without a header.
TokenFile open_nanogpt(const std::string& path);

/// Megatron-LM's indexed data set (megatron/core/datasets/indexed_dataset.py), `prefix`.bin with `prefix`.idx.
TokenFile open_megatron(const std::string& prefix);

}  // namespace pipefill
