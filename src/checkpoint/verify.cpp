// Hashes against the manifest, and which tensor a wrong hash hits; see verify.hpp.
#include "checkpoint/verify.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/error.hpp"
#include "checkpoint/directory.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

std::int64_t bytes_of(const SliceRecord& slice) { return slice.elements() * static_cast<std::int64_t>(sizeof(float)); }

Damage file_damage(const FileRecord& record, std::string text) {
  return {.file = record.name, .tensor = {}, .expected = {}, .found = {}, .text = record.name + ": " + std::move(text)};
}

Damage wrong_size(const FileRecord& record, std::int64_t found) {
  Damage damage = file_damage(record, fmt::format("has {} bytes instead of {}", found, record.digest.bytes));
  damage.expected = std::to_string(record.digest.bytes);
  damage.found = std::to_string(found);
  for (const SliceRecord& slice : record.slices) {
    if (slice.offset + bytes_of(slice) <= found) continue;
    damage.tensor = slice.describe();
    damage.text += "; the first tensor cut off is " + damage.tensor;
    break;
  }
  return damage;
}

/// The tensors whose bytes have another hash; when there is none the damage lies between them.
std::vector<Damage> wrong_hash(const FileRecord& record, int descriptor, const std::string& path,
                               const std::string& found) {
  std::vector<Damage> damage;
  for (const SliceRecord& slice : record.slices) {
    const FileDigest digest = digest_range(descriptor, slice.offset, bytes_of(slice), path);
    if (digest.hash == slice.hash) continue;
    damage.push_back({record.name, slice.describe(), slice.hash, digest.hash,
                      fmt::format("{}: {} is damaged: expected hash {}, found {}", record.name, slice.describe(),
                                  slice.hash, digest.hash)});
  }
  if (damage.empty()) {
    damage.push_back({record.name, "", record.digest.hash, found,
                      fmt::format("{}: damaged outside all tensors (HDF5 structure): expected hash {}, found {}",
                                  record.name, record.digest.hash, found)});
  }
  return damage;
}

std::vector<Damage> verify_file(const std::string& directory, const FileRecord& record) {
  const std::string path = directory + "/" + record.name;
  // Never waits: what stands here may be a pipe.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    return {file_damage(record, errno == ENOENT ? "is missing" : system_text("cannot open", errno))};
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {file_damage(record, "is not a regular file")};
  if (info.st_size != record.digest.bytes) return {wrong_size(record, info.st_size)};
  try {
    const FileDigest digest = digest_range(file.get(), 0, record.digest.bytes, path);
    if (digest == record.digest) return {};
    if (digest.bytes != record.digest.bytes) return {wrong_size(record, digest.bytes)};
    return wrong_hash(record, file.get(), path, digest.hash);
  } catch (const FileError& error) {
    return {file_damage(record, error.what())};
  }
}

}  // namespace

std::vector<Damage> verify_files(const std::string& path, const Manifest& manifest, int part, int parts) {
  std::vector<Damage> all;
  for (std::size_t i = static_cast<std::size_t>(part); i < manifest.files.size();
       i += static_cast<std::size_t>(parts)) {
    for (Damage& damage : verify_file(path, manifest.files[i])) all.push_back(std::move(damage));
  }
  return all;
}

std::optional<Manifest> check_manifest(const std::string& path, std::vector<Damage>& damage) {
  const auto add = [&](std::string text) {
    damage.push_back({.file = kManifestName, .tensor = {}, .expected = {}, .found = {}, .text = std::move(text)});
  };
  try {
    Manifest manifest = read_manifest(path);
    const std::string name = std::filesystem::path(path).filename().string();
    if (step_of(name) == manifest.state.step) return manifest;
    add(fmt::format("{}/{}: is the manifest of step {}: a copied or renamed directory", path, kManifestName,
                    manifest.state.step));
  } catch (const FileError& error) {
    add(error.what());
  }
  return std::nullopt;
}

std::vector<Damage> verify_checkpoint(const std::string& path) {
  std::vector<Damage> damage;
  const std::optional<Manifest> manifest = check_manifest(path, damage);
  if (manifest) damage = verify_files(path, *manifest);
  return damage;
}

}  // namespace pipefill
