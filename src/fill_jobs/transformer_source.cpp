// Reading a shape off a manifest, the parameters off its files, and keeping the choice.
#include "fill_jobs/transformer_source.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/load.hpp"
#include "storage/atomic_file.hpp"
#include "storage/strict_yaml.hpp"

namespace pipefill {
namespace {

namespace fs = std::filesystem;

/// Largest sizes a job may ask for: products of three of them stay far below 2^63.
constexpr std::int64_t kMostLayers = 1000, kMostWidth = 65536, kMostContext = 1 << 20, kMostVocab = 1 << 22;

/// The deck is our own print of resolved values: heads is nowhere else in a checkpoint.
int heads_in(const std::string& deck, const std::string& path) {
  const YamlDocument document = parse_yaml(deck);
  for (const YamlEntry& section : document.root.entries) {
    if (section.key != "model") continue;
    for (const YamlEntry& key : section.value.entries) {
      const std::string& text = key.value.text;
      int heads = 0;
      if (key.key == "heads" && std::from_chars(text.data(), text.data() + text.size(), heads).ec == std::errc{})
        return heads;
    }
  }
  throw FileError(ExitCode::damaged_data, path, "its deck does not say how many attention heads the model has");
}

ModelShape shape_of(const Manifest& manifest, const std::string& path) {
  ModelShape shape;
  shape.tied = true;
  for (const FileRecord& file : manifest.files) {
    for (const SliceRecord& slice : file.slices) {
      if (slice.group != TensorGroup::parameters) continue;
      if (slice.name == "token_embedding.weight" && slice.shape.size() == 2) {
        shape.vocab = static_cast<int>(slice.shape[0]);
        shape.channels = static_cast<int>(slice.shape[1]);
      }
      if (slice.name == "position_embedding.weight") shape.context = static_cast<int>(slice.shape[0]);
      if (slice.name == "head.weight") shape.tied = false;
      const bool starts_layer = slice.name.starts_with("block.") && slice.name.ends_with(".attention_norm.weight");
      if (starts_layer && slice.row_begin == 0) ++shape.layers;
    }
  }
  shape.heads = heads_in(manifest.state.deck, path);
  return shape;
}

}  // namespace

TransformerSource::TransformerSource(JobParameters& parameters, const pipefill_fill_setup& setup, std::uint64_t seed,
                                     int data_vocab)
    : seed_(seed),
      choice_file_(std::string(setup.shards > 1 ? setup.shared_directory : setup.directory) + "/model.json") {
  if (const auto checkpoint = parameters.text("checkpoint")) {
    if (!read_choice()) {
      find_checkpoint_of(parameters.path(*checkpoint));
      // All parts take that of the first one, whatever is newest when they begin.
      if (setup.shards > 1 && !keep_choice(Choice::of_the_first)) read_choice();
    }
  } else {
    const auto size = [&](const char* key, int otherwise, std::int64_t most) {
      return static_cast<int>(parameters.integer(key, otherwise, 1, most));
    };
    shape_.layers = size("layers", 4, kMostLayers);
    shape_.channels = size("channels", 256, kMostWidth);
    shape_.heads = size("heads", 4, kMostWidth);
    shape_.context = size("context", 64, kMostContext);
    shape_.vocab = size("vocab", data_vocab, kMostVocab);
    shape_.tied = parameters.truth("tied", true);
  }
  check_shape(shape_);
}

void TransformerSource::find_checkpoint_of(const std::string& path) {
  const fs::path given = fs::path(path).filename().empty() ? fs::path(path).parent_path() : fs::path(path);
  if (step_of(given.filename().string())) {
    checkpoint_ = given.string();
  } else {
    const std::string directory = fs::is_directory(given / "checkpoints") ? given / "checkpoints" : given;
    const std::vector<CheckpointEntry> entries = list_checkpoints(directory);
    const auto whole =
        std::find_if(entries.begin(), entries.end(), [](const auto& e) { return e.attempt.has_value(); });
    if (whole == entries.end())
      throw FileError(ExitCode::missing_input, path,
                      "with.checkpoint names no run, and no step's directory, that has a checkpoint");
    checkpoint_ = whole->path;
  }
  shape_ = shape_of(read_manifest(checkpoint_), checkpoint_);
}

bool TransformerSource::read_choice() {
  if (!fs::exists(choice_file_)) return false;
  try {
    const auto choice = nlohmann::json::parse(read_file(choice_file_, 1 << 16));
    checkpoint_ = choice.at("checkpoint");
    shape_ = {choice.at("layers"), choice.at("channels"), choice.at("heads"), choice.at("context"),
              choice.at("vocab"),  choice.at("tied"),     ComputeType::fp32};
  } catch (const nlohmann::json::exception& e) {
    throw FileError(ExitCode::damaged_data, choice_file_, e.what());
  }
  return true;
}

bool TransformerSource::keep_choice(Choice choice_of) const {
  const nlohmann::json choice{{"checkpoint", checkpoint_}, {"layers", shape_.layers},   {"channels", shape_.channels},
                              {"heads", shape_.heads},     {"context", shape_.context}, {"vocab", shape_.vocab},
                              {"tied", shape_.tied}};
  const std::string text = choice.dump(2) + "\n";
  if (choice_of == Choice::own) return replace_file(choice_file_, text), true;
  const std::string mine = fmt::format("{}.{}", choice_file_, ::getpid());
  replace_file(mine, text);
  const bool first = ::link(mine.c_str(), choice_file_.c_str()) == 0;
  ::unlink(mine.c_str());
  return first;
}

void TransformerSource::fill(const ParameterLayout& layout, std::span<float> values, int threads) const {
  const auto part = [&](std::size_t i) {
    return values.subspan(static_cast<std::size_t>(layout.offsets[i]),
                          static_cast<std::size_t>(layout.table[i].elements()));
  };
  if (checkpoint_.empty()) {
    for (std::size_t i = 0; i < layout.table.size(); ++i) initialise(layout.table[i], seed_, 0, part(i), threads);
    return;
  }
  keep_choice(Choice::own);
  const fs::path path(checkpoint_);
  const auto search =
      find_checkpoint(single_rank(), path.parent_path().string(), step_of(path.filename().string()).value());
  std::vector<TensorDestination> wanted;
  for (std::size_t i = 0; i < layout.table.size(); ++i) {
    const TensorSpec& tensor = layout.table[i];
    wanted.push_back({{TensorGroup::parameters, tensor.name, tensor.shape, 0, tensor.rows()}, part(i)});
  }
  load_tensors(single_rank(), search.found.value(), wanted);
}

std::string TransformerSource::describe() const {
  return checkpoint_.empty() ? fmt::format("initialised with seed {}", seed_) : "checkpoint " + checkpoint_;
}

}  // namespace pipefill
