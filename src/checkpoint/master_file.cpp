// Virtual datasets over the shards of a checkpoint; see master_file.hpp.
#include "checkpoint/master_file.hpp"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <vector>

#include "storage/h5_file.hpp"

namespace pipefill {
namespace {

struct Source {
  const std::string* file;
  const SliceRecord* slice;
};

/// One virtual dataset: the slices' rows, each out of its shard. Shards are named without a directory, which HDF5 looks
/// up beside the master file.
void write_virtual(H5File& file, const std::string& dataset, const std::vector<Source>& sources) {
  const H5Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "H5Pcreate");
  const float missing = std::numeric_limits<float>::quiet_NaN();
  check_h5(H5Pset_fill_value(layout.get(), H5T_NATIVE_FLOAT, &missing), "H5Pset_fill_value");
  const std::vector<std::int64_t>& shape = sources.front().slice->shape;
  const H5Handle whole = make_space(shape);
  for (const Source& source : sources) {
    std::vector<hsize_t> start(shape.size(), 0);
    std::vector<hsize_t> count(shape.begin(), shape.end());
    start[0] = static_cast<hsize_t>(source.slice->row_begin);
    count[0] = static_cast<hsize_t>(source.slice->row_end - source.slice->row_begin);
    check_h5(H5Sselect_hyperslab(whole.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
             "H5Sselect_hyperslab", dataset);
    const H5Handle rows = make_space({count.begin(), count.end()});
    check_h5(H5Pset_virtual(layout.get(), whole.get(), source.file->c_str(), dataset.c_str(), rows.get()),
             "H5Pset_virtual", dataset);
  }
  check_h5(H5Sselect_all(whole.get()), "H5Sselect_all", dataset);
  const H5Handle parents(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "H5Pcreate");
  check_h5(H5Pset_create_intermediate_group(parents.get(), 1), "H5Pset_create_intermediate_group");
  H5Handle created(
      H5Dcreate2(file.id(), dataset.c_str(), H5T_IEEE_F32LE, whole.get(), parents.get(), layout.get(), H5P_DEFAULT),
      H5Dclose, "H5Dcreate2", dataset);
  created.close(dataset);
  file.check_written();
}

}  // namespace

FileRecord write_master_file(const std::string& directory, const Manifest& manifest) {
  std::map<std::string, std::vector<Source>> tensors;
  for (const FileRecord& shard : manifest.files) {
    for (const SliceRecord& slice : shard.slices) {
      tensors[fmt::format("/{}/{}", group_name(slice.group), slice.name)].push_back({&shard.name, &slice});
    }
  }
  H5File file = H5File::create(directory + "/" + kMasterName, {.sync = SyncOnClose::fsync, .hash = HashOnClose::xxh3});
  for (const auto& [dataset, sources] : tensors) write_virtual(file, dataset, sources);
  const RunState& state = manifest.state;
  file.write_attribute("/", "filetype", "pipefill checkpoint");
  file.write_attribute("/", "version", std::int32_t{kManifestMajor});
  file.write_attribute("/", "step", state.step);
  file.write_attribute("/", "attempt", std::int32_t{state.attempt});
  file.write_attribute("/", "seed", state.seed);
  file.write_attribute("/", "next_sample", state.next_sample);
  file.write_attribute("/", "deck_xxh3_128", manifest.deck_hash());
  return {.name = kMasterName, .digest = file.close(), .slices = {}};
}

}  // namespace pipefill
