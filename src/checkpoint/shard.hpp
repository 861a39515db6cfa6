// One rank's HDF5 file of a checkpoint: what it owns, by tensor name, and the record that the manifest keeps of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "checkpoint/manifest.hpp"
#include "checkpoint/tensor_slice.hpp"

namespace pipefill {

std::string shard_name(int rank);  ///< "shard-0003.h5"

/// Bytes that the shard of these slices will take, a little generously.
std::int64_t predicted_bytes(std::span<const TensorSlice> slices);

/// Writes DIRECTORY/NAME: a contiguous dataset /GROUP/TENSOR of the slice's rows for every slice that has rows, with
/// the attributes global_shape, row_begin, row_end and xxh3_128. On return the file is synced and closed. FileError 74
/// when a system call failed; the file is then useless and still there. On the HDF5 thread.
FileRecord write_shard(const std::string& directory, const std::string& name, std::span<const TensorSlice> slices,
                       std::function<int(const char* call)> inject = {});

}  // namespace pipefill
