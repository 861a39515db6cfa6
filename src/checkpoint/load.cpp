// The search for a whole checkpoint and the reading of rows; see load.hpp.
#include "checkpoint/load.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/directory.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

using Json = nlohmann::json;

std::string damage_text(const std::vector<Damage>& all) {
  Json json = Json::array();
  for (const Damage& d : all) json.push_back({d.file, d.tensor, d.expected, d.found, d.text});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<Damage> parse_damage(const std::string& text) {
  std::vector<Damage> all;
  for (const Json& d : Json::parse(text)) all.push_back({d[0], d[1], d[2], d[3], d[4]});
  return all;
}

/// Every rank checks manifest and its share of the files; all learn all findings, each finding once.
std::vector<Damage> verify_together(const RankGroup& ranks, const std::string& path,
                                    std::optional<Manifest>& manifest) {
  std::vector<Damage> mine;
  manifest = check_manifest(path, mine);
  if (manifest) mine = verify_files(path, *manifest, ranks.rank, ranks.size);
  std::vector<Damage> all;
  for (const std::string& text : ranks.gather(damage_text(mine))) {
    for (Damage& found : parse_damage(text)) {
      const bool known = std::any_of(all.begin(), all.end(), [&](const Damage& d) { return d.text == found.text; });
      if (!known) all.push_back(std::move(found));
    }
  }
  return all;
}

/// Paths to try, newest first, as rank 0 sees them.
std::vector<std::string> candidates(const RankGroup& ranks, const std::string& directory,
                                    std::optional<std::int64_t> step) {
  std::vector<std::string> paths;
  all_or_none(ranks, [&] {
    if (ranks.rank != 0) return;
    for (const CheckpointEntry& entry : list_checkpoints(directory)) {
      if (!step || entry.step == *step) paths.push_back(entry.path);
    }
    if (step && paths.empty()) {
      throw FileError(ExitCode::missing_input, directory + "/" + step_name(*step),
                      "there is no checkpoint of this step; `pipefill checkpoint list RUN` shows what there is");
    }
  });
  return Json::parse(ranks.gather(Json(paths).dump()).front()).get<std::vector<std::string>>();
}

struct Piece {
  const std::string* file;
  const SliceRecord* slice;
};
using TensorIndex = std::map<std::pair<TensorGroup, std::string>, std::vector<Piece>>;

void read_exactly(int descriptor, std::span<std::byte> into, std::int64_t offset, const std::string& path) {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor, into.data(), std::min<std::size_t>(into.size(), 1u << 30), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError(ExitCode::input_output, path, system_text("cannot read", errno));
    if (got == 0) throw FileError(ExitCode::damaged_data, path, "has become shorter since it was verified");
    into = into.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

/// Files stay open while a rank reads: a layout change makes it jump between shards.
class OpenFiles {
 public:
  explicit OpenFiles(std::string directory) : directory_(std::move(directory)) {}
  int descriptor(const std::string& name) {
    auto found = files_.find(name);
    if (found == files_.end()) found = files_.emplace(name, open_to_read(path(name))).first;
    return found->second.get();
  }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }

 private:
  std::string directory_;
  std::map<std::string, FileDescriptor> files_;
};

void read_rows(const TensorIndex& index, const FoundCheckpoint& checkpoint, const TensorDestination& wanted,
               OpenFiles& files) {
  const auto found = index.find({wanted.group, wanted.name});
  if (found == index.end()) {
    throw DeckError(fmt::format("{} has no {}/{}: it belongs to another model, or was saved without it",
                                checkpoint.path, group_name(wanted.group), wanted.name));
  }
  const std::vector<std::int64_t>& shape = found->second.front().slice->shape;
  if (shape != wanted.shape) {
    throw DeckError(fmt::format("{}: {}/{} has shape ({}), the deck's model needs ({})", checkpoint.path,
                                group_name(wanted.group), wanted.name, fmt::join(shape, ","),
                                fmt::join(wanted.shape, ",")));
  }
  if (wanted.row_begin < 0 || wanted.row_begin > wanted.row_end || wanted.row_end > shape[0] ||
      wanted.elements() != static_cast<std::int64_t>(wanted.values.size())) {
    throw Error(ExitCode::bug,
                fmt::format("checkpoint: {} asked for into {} values", wanted.describe(), wanted.values.size()));
  }
  const std::int64_t columns = wanted.columns();
  for (const Piece& piece : found->second) {
    const std::int64_t begin = std::max(piece.slice->row_begin, wanted.row_begin);
    const std::int64_t end = std::min(piece.slice->row_end, wanted.row_end);
    if (begin >= end) continue;
    const std::span<float> into = wanted.values.subspan(static_cast<std::size_t>((begin - wanted.row_begin) * columns),
                                                        static_cast<std::size_t>((end - begin) * columns));
    const std::int64_t offset =
        piece.slice->offset + (begin - piece.slice->row_begin) * columns * static_cast<std::int64_t>(sizeof(float));
    read_exactly(files.descriptor(*piece.file), std::as_writable_bytes(into), offset, files.path(*piece.file));
  }
}

}  // namespace

CheckpointSearch find_checkpoint(const RankGroup& ranks, const std::string& directory,
                                 std::optional<std::int64_t> step) {
  CheckpointSearch search;
  for (const std::string& path : candidates(ranks, directory, step)) {
    std::optional<Manifest> manifest;
    std::vector<Damage> damage = verify_together(ranks, path, manifest);
    if (damage.empty()) {
      search.found = FoundCheckpoint{path, std::move(*manifest)};
      return search;
    }
    search.damaged.push_back({path, std::move(damage)});
  }
  if (step) {
    throw FileError(ExitCode::damaged_data, search.damaged.front().path,
                    "is damaged: " + search.damaged.front().damage.front().text);
  }
  return search;
}

void load_tensors(const RankGroup& ranks, const FoundCheckpoint& checkpoint,
                  std::span<const TensorDestination> destinations) {
  all_or_none(ranks, [&] {
    TensorIndex index;
    for (const FileRecord& file : checkpoint.manifest.files) {
      for (const SliceRecord& slice : file.slices) index[{slice.group, slice.name}].push_back({&file.name, &slice});
    }
    OpenFiles files(checkpoint.path);
    for (const TensorDestination& wanted : destinations) read_rows(index, checkpoint, wanted, files);
  });
}

}  // namespace pipefill
