// Is a checkpoint what its manifest says? Sizes and hashes of all files, down to the tensor that is damaged. Never
// parses HDF5, allocates by no number from a file, and so survives any damage.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"

namespace pipefill {

/// One thing that is wrong. Where a field does not apply it is empty.
struct Damage {
  std::string file;      ///< "MANIFEST.json", "shard-0001.h5"
  std::string tensor;    ///< "moment1/block.0.mlp.expand.weight rows 0..64 of (256,64)"
  std::string expected;  ///< hash or size
  std::string found;
  std::string text;  ///< the whole finding in one line, file and tensor named
};

struct DamagedCheckpoint {
  std::string path;
  std::vector<Damage> damage;
};

/// Checks the files with index % parts == part of `manifest.files`: `parts` ranks share the work.
std::vector<Damage> verify_files(const std::string& path, const Manifest& manifest, int part = 0, int parts = 1);

/// Manifest (also that the directory's name fits its step), then all files. Empty: the checkpoint is whole.
std::vector<Damage> verify_checkpoint(const std::string& path);

/// The manifest of the checkpoint at `path`, when it can be read, is whole and fits the directory's name; otherwise
/// what is wrong is added to `damage`.
std::optional<Manifest> check_manifest(const std::string& path, std::vector<Damage>& damage);

}  // namespace pipefill
