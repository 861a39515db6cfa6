// Writes a rank's tensors into its shard; see shard.hpp.
#include "checkpoint/shard.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "storage/h5_file.hpp"

namespace pipefill {
namespace {

void expect_consistent(const TensorSlice& slice) {
  const bool rows_right = !slice.shape.empty() && 0 <= slice.row_begin && slice.row_begin <= slice.row_end &&
                          slice.row_end <= slice.shape[0];
  if (rows_right && slice.elements() == static_cast<std::int64_t>(slice.values.size())) return;
  throw Error(ExitCode::bug,
              fmt::format("checkpoint: {} does not fit its {} values", slice.describe(), slice.values.size()));
}

}  // namespace

std::string shard_name(int rank) { return fmt::format("shard-{:04}.h5", rank); }

std::int64_t predicted_bytes(std::span<const TensorSlice> slices) {
  constexpr std::int64_t kFile = 16 * 1024, kDataset = 2 * 1024;  // HDF5's headers
  std::int64_t bytes = slices.empty() ? 0 : kFile;
  for (const TensorSlice& slice : slices) bytes += kDataset + static_cast<std::int64_t>(slice.values.size_bytes());
  return bytes;
}

FileRecord write_shard(const std::string& directory, const std::string& name, std::span<const TensorSlice> slices,
                       std::function<int(const char* call)> inject) {
  FileRecord record{.name = name, .digest = {}, .slices = {}};
  H5File file = H5File::create(directory + "/" + name,
                               {.sync = SyncOnClose::fsync, .hash = HashOnClose::xxh3, .inject = std::move(inject)});
  file.write_attribute("/", "filetype", "pipefill checkpoint shard");
  file.write_attribute("/", "version", std::int32_t{kManifestMajor});
  for (const TensorSlice& slice : slices) {
    expect_consistent(slice);
    if (slice.values.empty()) continue;
    std::vector<std::int64_t> extent = slice.shape;
    extent[0] = slice.row_end - slice.row_begin;
    const std::string dataset = fmt::format("/{}/{}", group_name(slice.group), slice.name);
    file.write<float>(dataset, slice.values, extent);
    SliceRecord written{slice, file.offset(dataset), hash_values(slice.values)};
    file.write_attribute<std::int64_t>(dataset, "global_shape", std::span<const std::int64_t>(slice.shape));
    file.write_attribute(dataset, "row_begin", slice.row_begin);
    file.write_attribute(dataset, "row_end", slice.row_end);
    file.write_attribute(dataset, "xxh3_128", written.hash);
    record.slices.push_back(std::move(written));
  }
  record.digest = file.close();
  return record;
}

}  // namespace pipefill
