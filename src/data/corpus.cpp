// Dividing the text into training and validation samples, and finding them again.
#include "data/corpus.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/contract.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "data/permutation.hpp"

namespace pipefill {

namespace {

std::int64_t position_in(std::span<const SampleRange> ranges, std::int64_t index, std::int64_t context) {
  for (const SampleRange& range : ranges) {
    if (index < range.samples) return range.first + index * context;
    index -= range.samples;
  }
  contract_broken("precondition", "a sample index below the number of samples");
}

}  // namespace

Corpus::Corpus(std::vector<TokenFile> files, int vocab, std::int64_t context, std::uint64_t seed,
               double validation_fraction)
    : files_(std::move(files)), vocab_(vocab), context_(context), seed_(seed) {
  PF_EXPECT(!files_.empty() && context >= 1 && validation_fraction >= 0 && validation_fraction < 1);
  starts_ = {0};
  for (const TokenFile& file : files_) starts_.push_back(starts_.back() + file.tokens());
  divide(validation_fraction);
}

// Every part is: training samples, a few tokens nobody uses, validation samples.
void Corpus::divide(double validation_fraction) {
  const std::int64_t all = std::max<std::int64_t>(tokens() - 1, 0) / context_;
  const std::int64_t held_out =
      validation_fraction > 0 ? std::max<std::int64_t>(1, std::llround(validation_fraction * static_cast<double>(all)))
                              : 0;
  const std::int64_t parts = std::clamp<std::int64_t>(held_out, 1, kParts);
  unused_ = tokens();
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t begin = tokens() / parts * part + std::min(part, tokens() % parts);
    const std::int64_t end = tokens() / parts * (part + 1) + std::min(part + 1, tokens() % parts);
    const std::int64_t validation = held_out / parts + (part < held_out % parts ? 1 : 0);
    const std::int64_t middle = validation > 0 ? end - validation * context_ - 1 : end;
    const std::int64_t training = middle > begin ? (middle - begin - 1) / context_ : 0;
    if (middle < begin || training == 0) {
      training_samples_ = 0;
      break;
    }
    training_.push_back({begin, training});
    training_samples_ += training;
    unused_ -= training * context_ + 1;
    if (validation == 0) continue;
    validation_.push_back({middle, validation});
    validation_samples_ += validation;
    unused_ -= validation * context_ + 1;
  }
  if (training_samples_ == 0)
    throw FileError(
        ExitCode::damaged_data, files_.front().path(),
        fmt::format("{}{} tokens in all are too few for samples of {} tokens (model.context + 1) with a "
                    "validation_fraction of {}; give more text or a shorter context{}",
                    files_.size() > 1 ? fmt::format("and {} more: ", files_.size() - 1) : "", tokens(), context_ + 1,
                    validation_fraction, held_out > 0 ? ", or set data.validation_fraction to 0" : ""));
}

std::int64_t Corpus::training_position(std::int64_t index) const {
  PF_EXPECT(index >= 0);
  const auto epoch = static_cast<std::uint64_t>(index / training_samples_);
  const Permutation order(training_samples_, derive_key(seed_, epoch));
  return position_in(training_, order(index % training_samples_), context_);
}

std::int64_t Corpus::position_in_order(std::int64_t index) const {
  PF_EXPECT(index >= 0 && index < training_samples_);
  return position_in(training_, index, context_);
}

std::int64_t Corpus::validation_position(std::int64_t index) const {
  PF_EXPECT(index >= 0 && index < validation_samples_);
  return position_in(validation_, index, context_);
}

void Corpus::read(std::int64_t position, std::span<std::int32_t> tokens) const {
  PF_EXPECT(position >= 0 && position + static_cast<std::int64_t>(tokens.size()) <= starts_.back());
  auto file = static_cast<std::size_t>(std::ranges::upper_bound(starts_, position) - starts_.begin()) - 1;
  while (!tokens.empty()) {
    const std::int64_t left = starts_[file + 1] - position;
    const auto count = std::min(tokens.size(), static_cast<std::size_t>(left));
    files_[file].read(position - starts_[file], tokens.first(count), vocab_);
    tokens = tokens.subspan(count);
    position += static_cast<std::int64_t>(count);
    ++file;
  }
}

}  // namespace pipefill
