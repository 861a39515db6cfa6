// checkpoint.h5: a small HDF5 file in which every tensor appears whole, as a virtual dataset over the shards, so that
// h5py and h5dump need to know nothing of ranks. For people; pipefill itself loads by the manifest.
#pragma once

#include <string>

#include "checkpoint/manifest.hpp"

namespace pipefill {

/// Writes DIRECTORY/checkpoint.h5 for the shards in `manifest.files`. Rows whose shard is missing read as NaN, not as
/// zeros. FileError 74 when writing fails. On the HDF5 thread.
FileRecord write_master_file(const std::string& directory, const Manifest& manifest);

}  // namespace pipefill
