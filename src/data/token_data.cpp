// From a description to open files, and from a sample's number to its tokens.
#include "data/token_data.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/contract.hpp"
#include "base/error.hpp"
#include "data/find_files.hpp"
#include "data/token_formats.hpp"

namespace pipefill {

namespace {

constexpr int kSyntheticVocab = 64;

/// The prefixes of the .bin/.idx pairs that the patterns name: every pattern is turned into one of .idx files.
std::vector<std::string> find_megatron_prefixes(std::vector<std::string> patterns) {
  constexpr std::size_t kSuffix = 4;
  for (std::string& pattern : patterns) {
    if (pattern.ends_with(".idx") || pattern.ends_with(".bin")) pattern.resize(pattern.size() - kSuffix);
    pattern += ".idx";
  }
  std::vector<std::string> prefixes = find_files(patterns);
  for (std::string& prefix : prefixes) prefix.resize(prefix.size() - kSuffix);
  return prefixes;
}

struct OpenFiles {
  std::vector<TokenFile> files;
  int vocab = 0;  ///< the format's own
};

OpenFiles open_files(const DataDescription& description) {
  OpenFiles open;
  const auto open_each = [&](const std::vector<std::string>& names, int vocab, auto&& open_one) {
    open.vocab = vocab;
    for (const std::string& name : names) open.files.push_back(open_one(name));
  };
  switch (description.format) {
    case TokenFormat::bytes:
      open_each(find_files(description.files), kByteVocab, open_bytes);
      break;
    case TokenFormat::nanogpt:
      open_each(find_files(description.files), kGpt2Vocab, open_nanogpt);
      break;
    case TokenFormat::megatron:
      open_each(find_megatron_prefixes(description.files), kGpt2Vocab, open_megatron);
      break;
    case TokenFormat::llmc:
      for (const std::string& name : find_files(description.files)) {
        LlmcShard shard = open_llmc(name);
        open.files.push_back(std::move(shard.tokens));
        open.vocab = std::max(open.vocab, shard.vocab);
      }
      break;
    case TokenFormat::synthetic:
      contract_broken("precondition", "a format that has files");
  }
  return open;
}

void check(const DataDescription& description, std::int64_t context) {
  if (context < 1) throw DeckError(fmt::format("model.context is {}; a sample needs at least one token", context));
  if (description.vocab < 0)
    throw DeckError(fmt::format("the vocabulary has {} ids; it needs some", description.vocab));
  if (!(description.validation_fraction >= 0 && description.validation_fraction < 1))
    throw DeckError(fmt::format("data.validation_fraction is {}; it must be at least 0 and below 1",
                                description.validation_fraction));
  const bool has_files = !description.files.empty();
  if (description.format == TokenFormat::synthetic && has_files)
    throw DeckError("data.files is set, but the synthetic source reads no files; set data.source to their format");
  if (description.format != TokenFormat::synthetic && !has_files)
    throw DeckError("data.files is empty; only data.source synthetic needs no files");
}

}  // namespace

TokenData open_data(const DataDescription& description, std::int64_t context) {
  check(description, context);
  if (description.format == TokenFormat::synthetic)
    return {MarkovSource(description.vocab > 0 ? description.vocab : kSyntheticVocab, description.seed), context};
  OpenFiles open = open_files(description);
  const int vocab = description.vocab > 0 ? description.vocab : open.vocab;
  return {Corpus(std::move(open.files), vocab, context, description.seed, description.validation_fraction), context};
}

int TokenData::vocab() const {
  return std::visit([](const auto& source) { return source.vocab(); }, source_);
}

std::optional<std::int64_t> TokenData::training_samples() const {
  if (const auto* corpus = std::get_if<Corpus>(&source_)) return corpus->training_samples();
  return std::nullopt;
}

std::optional<std::int64_t> TokenData::validation_samples() const {
  if (const auto* corpus = std::get_if<Corpus>(&source_)) return corpus->validation_samples();
  return std::nullopt;
}

std::optional<double> TokenData::entropy_rate() const {
  if (const auto* markov = std::get_if<MarkovSource>(&source_)) return markov->entropy_rate();
  return std::nullopt;
}

void TokenData::read_training(std::int64_t index, std::span<std::int32_t> tokens) const {
  PF_EXPECT(static_cast<std::int64_t>(tokens.size()) == context_ + 1);
  if (const auto* corpus = std::get_if<Corpus>(&source_))
    corpus->read(corpus->training_position(index), tokens);
  else
    std::get<MarkovSource>(source_).read(MarkovSource::Stream::training, index, tokens);
}

void TokenData::read_in_order(std::int64_t index, std::span<std::int32_t> tokens) const {
  PF_EXPECT(static_cast<std::int64_t>(tokens.size()) == context_ + 1);
  if (const auto* corpus = std::get_if<Corpus>(&source_))
    corpus->read(corpus->position_in_order(index), tokens);
  else
    std::get<MarkovSource>(source_).read(MarkovSource::Stream::training, index, tokens);
}

void TokenData::read_validation(std::int64_t index, std::span<std::int32_t> tokens) const {
  PF_EXPECT(static_cast<std::int64_t>(tokens.size()) == context_ + 1);
  if (const auto* corpus = std::get_if<Corpus>(&source_))
    corpus->read(corpus->validation_position(index), tokens);
  else
    std::get<MarkovSource>(source_).read(MarkovSource::Stream::validation, index, tokens);
}

std::string TokenData::describe() const {
  if (const auto* corpus = std::get_if<Corpus>(&source_))
    return fmt::format(
        "{} files, {} tokens below {}, {} training samples of {} per epoch, {} validation samples, {} "
        "tokens at ends not used",
        corpus->files(), corpus->tokens(), corpus->vocab(), corpus->training_samples(), context_,
        corpus->validation_samples(), corpus->unused_tokens());
  const auto& markov = std::get<MarkovSource>(source_);
  return fmt::format("synthetic Markov source of {} symbols, entropy rate {:.4f} nats, endless", markov.vocab(),
                     markov.entropy_rate());
}

}  // namespace pipefill
