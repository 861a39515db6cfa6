// Where the main job's tokens come from, behind one value type: text files, the shards of other programs, or a
// synthetic source with a known entropy rate. All reading is const, needs no lock and no state but the sample counter.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "data/corpus.hpp"
#include "data/markov_source.hpp"

namespace pipefill {

/// bytes: any files, a token is a byte. llmc: shards of llm.c, versions 1 (uint16) and 7 (uint32). nanogpt: bare
/// uint16. megatron: pairs .bin/.idx, named by either file or by their common prefix. synthetic: no files.
enum class TokenFormat { bytes, llmc, nanogpt, megatron, synthetic };

inline constexpr int kByteVocab = 256;  ///< ids of TokenFormat::bytes

struct DataDescription {
  TokenFormat format = TokenFormat::synthetic;
  std::vector<std::string> files;  ///< globs; what they match is sorted bytewise, each file counts once (links too)
  int vocab = 0;                   ///< ids are below this; 0: the format's own (see TokenData::vocab)
  std::uint64_t seed = 1;
  double validation_fraction = 0.05;  ///< of the tokens of files; the synthetic source needs none set aside
};

/// The order of samples is a pure function of (seed, epoch, sample index), whatever the ranks: replica r of R with
/// batch B reads of step s (from 0) the samples s*R*B + r*B .. + B-1, say, and any other division reads the same text.
///
/// Last partial batch: there is none in training. The index runs on over the end of an epoch into the next one, so a
/// batch may hold the last samples of one epoch and the first of the next; every sample is used once an epoch, none is
/// dropped or padded. Validation has validation_samples() samples and no more; who needs whole batches evaluates
/// fewer and says so.
class TokenData {
 public:
  TokenData(Corpus corpus, std::int64_t context) : source_(std::move(corpus)), context_(context) {}
  TokenData(MarkovSource source, std::int64_t context) : source_(std::move(source)), context_(context) {}

  std::int64_t context() const { return context_; }  ///< T
  /// Every id read is below this. As described, or the format's own: bytes 256, llm.c version 1, nanoGPT and Megatron
  /// 50257 (GPT-2), llm.c version 7 128256 (LLaMA 3), synthetic 64.
  int vocab() const;
  /// Samples in an epoch; none for the synthetic source, which is endless and never repeats.
  std::optional<std::int64_t> training_samples() const;
  /// Samples held out, 0 if validation_fraction is 0; none for the synthetic source (a second endless stream).
  std::optional<std::int64_t> validation_samples() const;
  /// Nats per token that no model can beat and a perfect one reaches (MarkovSource says why); synthetic only.
  std::optional<double> entropy_rate() const;

  /// Training sample `index` >= 0, counted from the start of the run over all epochs and ranks. tokens.size() is T+1:
  /// the inputs are the first T, the targets the last T.
  void read_training(std::int64_t index, std::span<std::int32_t> tokens) const;
  /// Training sample `index`, below training_samples() where that is a number, in the text's own order: for reading a
  /// text through once. The synthetic source has no order; it gives read_training's.
  void read_in_order(std::int64_t index, std::span<std::int32_t> tokens) const;
  /// Validation sample `index`, below validation_samples() where that is a number.
  void read_validation(std::int64_t index, std::span<std::int32_t> tokens) const;

  /// One line for the log: how many files, tokens, samples, and how many tokens at ends are not used.
  std::string describe() const;

 private:
  std::variant<Corpus, MarkovSource> source_;
  std::int64_t context_;
};

/// Opens the files, checks every header and size, and divides the text into samples of `context` + 1 tokens.
/// Missing file or a glob that matches nothing: FileError missing_input. Damaged, odd or truncated files and too little
/// text: FileError damaged_data. A description that makes no sense: DeckError.
TokenData open_data(const DataDescription& description, std::int64_t context);

}  // namespace pipefill
