// The manifest as JSON, and the checks that let the rest of the program believe it; see manifest.hpp.
#include "checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLargestManifest = std::int64_t{256} << 20;
constexpr std::int64_t kLargestTensor = std::int64_t{1} << 50;  ///< bytes; far beyond any file we write
constexpr std::size_t kHashDigits = 32;
/// The text's end: this, the hash of all bytes before it, and kTail.
constexpr std::string_view kHashKey = ",\n \"manifest_xxh3_128\": \"";
constexpr std::string_view kTail = "\"\n}\n";

[[noreturn]] void damaged(const std::string& path, const std::string& text) {
  throw FileError(ExitCode::damaged_data, path, text);
}

std::string dump(const Json& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

template <class T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<double> optional_number(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

/// A whole number that fits: nlohmann would cut 2.5 or 1e300 to something else without a word.
template <class T>
T integer(const Json& json) {
  const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<std::uint64_t>())
                                              : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
  if (!fits) throw std::invalid_argument("not a whole number in range: " + json.dump());
  return json.get<T>();
}

template <class T>
std::vector<T> integers(const Json& json) {
  if (!json.is_array()) throw std::invalid_argument("not a list: " + json.dump());
  std::vector<T> values;
  for (const Json& value : json) values.push_back(integer<T>(value));
  return values;
}

/// Refuses nesting that would exhaust the stack later on.
Json parse_flat(const std::string& text) {
  constexpr int kDeepest = 64;
  return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) throw std::invalid_argument("nested too deeply");
    return true;
  });
}

Json to_json(const SliceRecord& slice) {
  return {{"tensor", slice.name},   {"group", group_name(slice.group)},
          {"shape", slice.shape},   {"rows", {slice.row_begin, slice.row_end}},
          {"offset", slice.offset}, {"xxh3_128", slice.hash}};
}

Json to_json(const FileRecord& file) {
  Json slices = Json::array();
  for (const SliceRecord& slice : file.slices) slices.push_back(to_json(slice));
  return {{"name", file.name}, {"bytes", file.digest.bytes}, {"xxh3_128", file.digest.hash}, {"tensors", slices}};
}

TensorGroup group_of(const std::string& name) {
  for (const auto group : {TensorGroup::parameters, TensorGroup::moment1, TensorGroup::moment2}) {
    if (group_name(group) == name) return group;
  }
  throw std::invalid_argument("unknown tensor group " + name);
}

SliceRecord slice_of(const Json& json) {
  SliceRecord slice;
  slice.group = group_of(json.at("group").get<std::string>());
  slice.name = json.at("tensor").get<std::string>();
  slice.shape = integers<std::int64_t>(json.at("shape"));
  slice.row_begin = integer<std::int64_t>(json.at("rows").at(0));
  slice.row_end = integer<std::int64_t>(json.at("rows").at(1));
  slice.offset = integer<std::int64_t>(json.at("offset"));
  slice.hash = json.at("xxh3_128").get<std::string>();
  return slice;
}

FileRecord file_of(const Json& json) {
  FileRecord file;
  file.name = json.at("name").get<std::string>();
  file.digest.bytes = integer<std::int64_t>(json.at("bytes"));
  file.digest.hash = json.at("xxh3_128").get<std::string>();
  for (const Json& slice : json.at("tensors")) file.slices.push_back(slice_of(slice));
  return file;
}

/// Throws std::invalid_argument when the slice is not inside its tensor and its file.
void check_slice(const SliceRecord& slice, const FileRecord& file) {
  const auto refuse = [&](const char* why) {
    throw std::invalid_argument(fmt::format("{} in {}: {}", slice.describe(), file.name, why));
  };
  if (slice.shape.empty() || slice.shape.size() > 8) refuse("needs 1 to 8 dimensions");
  std::int64_t bytes = sizeof(float);
  for (const std::int64_t extent : slice.shape) {
    if (extent < 1 || __builtin_mul_overflow(bytes, extent, &bytes) || bytes > kLargestTensor) {
      refuse("declares a size that cannot be right");
    }
  }
  if (slice.row_begin < 0 || slice.row_begin >= slice.row_end || slice.row_end > slice.shape[0]) {
    refuse("rows outside the tensor");
  }
  const std::int64_t length = slice.elements() * static_cast<std::int64_t>(sizeof(float));
  if (slice.offset < 0 || slice.offset > file.digest.bytes || length > file.digest.bytes - slice.offset) {
    refuse("lies outside its file");
  }
}

void check_files(const std::vector<FileRecord>& files) {
  if (files.empty()) throw std::invalid_argument("lists no files");
  std::vector<std::string> names;
  for (const FileRecord& file : files) {
    const bool plain = !file.name.empty() && file.name[0] != '.' && file.name.find('/') == std::string::npos &&
                       file.name.find('\0') == std::string::npos && file.name != kManifestName;
    if (!plain) throw std::invalid_argument("bad file name \"" + file.name + "\"");
    if (file.digest.bytes < 0) throw std::invalid_argument(file.name + ": negative size");
    for (const SliceRecord& slice : file.slices) check_slice(slice, file);
    names.push_back(file.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw std::invalid_argument(*twice + " is listed twice");
  const std::string error = coverage_error(files);
  if (!error.empty()) throw std::invalid_argument(error);
}

RunState state_of(const Json& json) {
  RunState state;
  state.step = integer<std::int64_t>(json.at("step"));
  state.attempt = integer<int>(json.at("attempt"));
  const Json& layout = json.at("layout");
  state.stages = integer<int>(layout.at("stages"));
  state.replicas = integer<int>(layout.at("replicas"));
  state.schedule = layout.at("schedule").get<std::string>();
  state.layers = integers<int>(layout.at("layers"));
  state.next_sample = integer<std::int64_t>(json.at("data").at("next_sample"));
  state.seed = integer<std::uint64_t>(json.at("data").at("seed"));
  state.training_loss = optional_number(json.at("loss").at("training"));
  state.validation_loss = optional_number(json.at("loss").at("validation"));
  state.fill_jobs = json.at("fill_jobs").dump();
  state.deck = json.at("deck").get<std::string>();
  if (state.step < 0 || state.next_sample < 0) throw std::invalid_argument("negative step or sample index");
  return state;
}

/// Splits the hash off the end and compares it with the text before.
std::string_view checked_body(std::string_view text, const std::string& path) {
  const std::size_t end = kHashKey.size() + kHashDigits + kTail.size();
  const bool closed =
      text.size() > end && text.substr(text.size() - end).starts_with(kHashKey) && text.ends_with(kTail);
  if (!closed)
    damaged(path, fmt::format("does not end with its own hash: truncated or damaged ({} bytes)", text.size()));
  const std::string_view body = text.substr(0, text.size() - end);
  const std::string_view expected = text.substr(body.size() + kHashKey.size(), kHashDigits);
  const std::string found = hash_text(body);
  if (found != expected) damaged(path, fmt::format("damaged: expected hash {}, found {}", expected, found));
  return body;
}

}  // namespace

std::int64_t Manifest::bytes() const {
  std::int64_t sum = 0;
  for (const FileRecord& file : files) sum += file.digest.bytes;
  return sum;
}

std::string record_text(const FileRecord& record) { return dump(to_json(record), -1); }
FileRecord parse_record(const std::string& text) { return file_of(parse_flat(text)); }

std::string manifest_text(const Manifest& manifest) {
  const RunState& state = manifest.state;
  Json files = Json::array();
  for (const FileRecord& file : manifest.files) files.push_back(to_json(file));
  const Json json = {
      {"filetype", "pipefill checkpoint"},
      {"schema", {{"major", kManifestMajor}, {"minor", kManifestMinor}}},
      {"step", state.step},
      {"attempt", state.attempt},
      {"layout",
       {{"stages", state.stages},
        {"replicas", state.replicas},
        {"schedule", state.schedule},
        {"layers", state.layers}}},
      {"data", {{"next_sample", state.next_sample}, {"seed", state.seed}}},
      {"loss",
       {{"training", optional_json(state.training_loss)}, {"validation", optional_json(state.validation_loss)}}},
      {"fill_jobs", parse_flat(state.fill_jobs)},
      {"deck_xxh3_128", manifest.deck_hash()},
      {"deck", state.deck},
      {"files", files},
  };
  std::string body = dump(json, 1);
  body.resize(body.size() - 2);  // the closing "\n}" comes back behind the hash
  const std::string hash = hash_text(body);
  return body.append(kHashKey).append(hash).append(kTail);
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  const std::string body = std::string(checked_body(text, path)) + "\n}";
  try {
    const Json json = parse_flat(body);
    if (json.at("filetype") != "pipefill checkpoint") damaged(path, "is not a pipefill checkpoint");
    const int major = integer<int>(json.at("schema").at("major"));
    if (major > kManifestMajor) {
      damaged(path, fmt::format("has format version {}, written by a newer pipefill; this one reads up to {}", major,
                                kManifestMajor));
    }
    Manifest manifest;
    manifest.state = state_of(json);
    for (const Json& file : json.at("files")) manifest.files.push_back(file_of(file));
    check_files(manifest.files);
    return manifest;
  } catch (const FileError&) {
    throw;
  } catch (const std::exception& error) {  // nlohmann's errors and the checks above
    damaged(path, fmt::format("makes no sense: {}", error.what()));
  }
}

Manifest read_manifest(const std::string& directory) {
  const std::string path = directory + "/" + kManifestName;
  std::string text;
  try {
    text = read_file(path, kLargestManifest);
  } catch (const FileError& error) {
    if (error.code() == ExitCode::missing_input) damaged(path, "is missing: not a complete checkpoint");
    throw;
  }
  return parse_manifest(text, path);
}

std::string coverage_error(const std::vector<FileRecord>& files) {
  std::map<std::pair<TensorGroup, std::string>, std::vector<const SliceRecord*>> tensors;
  for (const FileRecord& file : files) {
    for (const SliceRecord& slice : file.slices) tensors[{slice.group, slice.name}].push_back(&slice);
  }
  for (auto& [key, slices] : tensors) {
    std::sort(slices.begin(), slices.end(),
              [](const SliceRecord* a, const SliceRecord* b) { return a->row_begin < b->row_begin; });
    std::int64_t next = 0;
    for (const SliceRecord* slice : slices) {
      if (slice->shape != slices[0]->shape) return slice->describe() + " does not fit " + slices[0]->describe();
      if (slice->row_begin != next) {
        return fmt::format("{}: rows {}..{} are {}", slice->describe(), std::min(next, slice->row_begin),
                           std::max(next, slice->row_begin), slice->row_begin > next ? "missing" : "there twice");
      }
      next = slice->row_end;
    }
    if (next != slices[0]->shape[0]) {
      return fmt::format("{}: rows {}..{} are missing", slices[0]->describe(), next, slices[0]->shape[0]);
    }
  }
  return {};
}

}  // namespace pipefill
