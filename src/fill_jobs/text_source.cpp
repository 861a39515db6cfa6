// Which tokens a fill job reads.
#include "fill_jobs/text_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.hpp"

namespace pipefill {
namespace {

struct Format {
  const char* name;
  TokenFormat format;
  int vocab;  ///< as in TokenData::vocab
};
constexpr std::array<Format, 5> kFormats{{{"bytes", TokenFormat::bytes, 256},
                                          {"llmc", TokenFormat::llmc, 50257},
                                          {"nanogpt", TokenFormat::nanogpt, 50257},
                                          {"megatron", TokenFormat::megatron, 50257},
                                          {"synthetic", TokenFormat::synthetic, 64}}};

}  // namespace

DataDescription data_description(JobParameters& parameters, const std::string& files_key, std::uint64_t seed) {
  DataDescription data;
  data.validation_fraction = 0;
  for (const std::string& pattern : parameters.list(files_key)) data.files.push_back(parameters.path(pattern));
  const std::string name = parameters.text("source").value_or(data.files.empty() ? "synthetic" : "bytes");
  const auto* format = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return name == f.name; });
  if (format == kFormats.end())
    throw DeckError(fmt::format("with.source is '{}'; it needs bytes, llmc, nanogpt, megatron or synthetic", name));
  data.format = format->format;
  if ((data.format == TokenFormat::synthetic) != data.files.empty())
    throw DeckError(fmt::format("with.source is {}, and with.{} names {} files", name, files_key, data.files.size()));
  data.seed = static_cast<std::uint64_t>(
      parameters.integer("data_seed", static_cast<std::int64_t>(seed), 0, std::numeric_limits<std::int64_t>::max()));
  return data;
}

int own_vocab(const DataDescription& description) {
  return std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.format == description.format; })
      ->vocab;
}

}  // namespace pipefill
