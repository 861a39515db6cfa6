// MANIFEST.json: what a checkpoint is about, and size and hash of everything in it. It closes with the hash of its own
// bytes. Reading a checkpoint starts here: nothing else in the directory is believed before its hash is checked, and
// every number in here is checked before it is used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/tensor_slice.hpp"
#include "storage/hash.hpp"

namespace pipefill {

/// What the trainer needs to go on, besides tensors.
struct RunState {
  std::int64_t step = 0;         ///< completed updates
  int attempt = 1;               ///< grows with every start of the run; a higher one is newer, whatever its steps
  int stages = 1;                ///< P
  int replicas = 1;              ///< R
  std::string schedule;          ///< "1f1b"
  std::vector<int> layers;       ///< the cut: layers per chunk
  std::string deck;              ///< the resolved deck's text
  std::int64_t next_sample = 0;  ///< first global sample index of the next step
  std::uint64_t seed = 0;
  std::optional<double> training_loss;    ///< of the step
  std::optional<double> validation_loss;  ///< last one measured
  std::string fill_jobs = "{}";           ///< progress of fill jobs, any JSON text
  bool operator==(const RunState&) const = default;
};

/// Rows as they lie in a shard: contiguous little-endian fp32 from byte `offset` of the file on, with their hash.
struct SliceRecord : TensorRows {
  std::int64_t offset = 0;
  std::string hash;
  bool operator==(const SliceRecord&) const = default;
};

struct FileRecord {
  std::string name;  ///< in the checkpoint's directory, no path
  FileDigest digest;
  std::vector<SliceRecord> slices;  ///< empty for the master file
  bool operator==(const FileRecord&) const = default;
};

struct Manifest {
  RunState state;
  std::vector<FileRecord> files;

  std::string deck_hash() const { return hash_text(state.deck); }
  std::int64_t bytes() const;  ///< of all files
  bool operator==(const Manifest&) const = default;
};

inline constexpr int kManifestMajor = 1;  ///< a reader refuses a newer one
inline constexpr int kManifestMinor = 0;  ///< a reader ignores what a newer one adds
inline constexpr const char* kManifestName = "MANIFEST.json";
inline constexpr const char* kMasterName = "checkpoint.h5";

/// The file's whole text, hash included.
std::string manifest_text(const Manifest& manifest);
/// Hash, version, types, ranges, then that every tensor is covered exactly once. FileError 65 naming `path` otherwise.
Manifest parse_manifest(const std::string& text, const std::string& path);
/// read + parse of DIRECTORY/MANIFEST.json. Missing: FileError 65, for a checkpoint without one is damaged.
Manifest read_manifest(const std::string& directory);

/// One file's record as text, for its way from the rank that wrote it to rank 0, and back.
std::string record_text(const FileRecord& record);
FileRecord parse_record(const std::string& text);

/// What is wrong with the slices taken together: a tensor with a gap, an overlap, or two shapes. Empty: nothing.
std::string coverage_error(const std::vector<FileRecord>& files);

}  // namespace pipefill
