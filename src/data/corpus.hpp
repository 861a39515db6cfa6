// Token files as one long text, cut into samples: which are for training, which for validation, and in what order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/token_file.hpp"

namespace pipefill {

/// Which tokens of the text are for what. The text is divided into equal parts (at most kParts), and the end of each
/// part is for validation, so that validation sees the whole text and not just its last chapter. Inside its range a
/// sample k is the T+1 tokens from first + k T: neighbours share the one token that is the last target of one and the
/// first input of the next; a training and a validation sample never share any.
struct SampleRange {
  std::int64_t first = 0;  ///< token at which sample 0 starts
  std::int64_t samples = 0;
};

class Corpus {
 public:
  static constexpr std::int64_t kParts = 32;

  /// The files follow each other without a gap; a sample may run over their borders, as over those of documents.
  /// Each part's last tokens that do not make up a whole sample are not used (unused_tokens()).
  /// Too few tokens for one training sample (and one for validation, if validation_fraction > 0): FileError
  /// damaged_data. 0 <= validation_fraction < 1.
  Corpus(std::vector<TokenFile> files, int vocab, std::int64_t context, std::uint64_t seed, double validation_fraction);

  int vocab() const { return vocab_; }
  std::int64_t tokens() const { return starts_.back(); }
  std::int64_t unused_tokens() const { return unused_; }
  std::int64_t files() const { return static_cast<std::int64_t>(files_.size()); }
  std::int64_t training_samples() const { return training_samples_; }  ///< per epoch
  std::int64_t validation_samples() const { return validation_samples_; }

  /// The token at which the training sample number `index` starts. Epoch index / training_samples() has an order of
  /// its own, a permutation by (seed, epoch).
  std::int64_t training_position(std::int64_t index) const;
  /// The same without the permutation: the index-th training sample of the text; index < training_samples().
  std::int64_t position_in_order(std::int64_t index) const;
  /// The same for validation, which is read in the text's order; index < validation_samples().
  std::int64_t validation_position(std::int64_t index) const;

  /// tokens.size() tokens from `position` on.
  void read(std::int64_t position, std::span<std::int32_t> tokens) const;

 private:
  void divide(double validation_fraction);

  std::vector<TokenFile> files_;
  std::vector<std::int64_t> starts_;  ///< of each file in the text, and the text's length
  int vocab_;
  std::int64_t context_;
  std::uint64_t seed_;
  std::vector<SampleRange> training_, validation_;
  std::int64_t training_samples_ = 0, validation_samples_ = 0, unused_ = 0;
};

}  // namespace pipefill
