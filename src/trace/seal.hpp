// The last line of a trace file: what all bytes before it must hash to. HDF5 and its tools ignore what follows a file's
// logical end, so h5py, h5dump and pandas read a sealed file like any other.
#pragma once

#include <filesystem>

#include "storage/atomic_file.hpp"
#include "storage/hash.hpp"

namespace pipefill {

/// Appends the seal to a file whose content is `content`. FileError 74.
void append_seal(const std::filesystem::path& file, const FileDigest& content, Durability durability);
/// FileError 65 when the seal is missing or the content is not what it says; 66 when there is no file.
void check_seal(const std::filesystem::path& file);

}  // namespace pipefill
