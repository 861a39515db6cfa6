// Files, datasets and attributes over the serial C API; see h5_file.hpp.
#include "storage/h5_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/contract.hpp"
#include "base/error.hpp"
#include "storage/atomic_file.hpp"

namespace pipefill {
namespace {

constexpr std::int64_t kLargestDataset = std::int64_t{1} << 40;

/// Everything closes with the file; format for readers from 1.10 on; locks off, which NFS often lacks: the run lock and
/// the rename protect our files.
H5Handle access_list() {
  H5Handle list(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "H5Pcreate");
  check_h5(H5Pset_fclose_degree(list.get(), H5F_CLOSE_STRONG), "H5Pset_fclose_degree");
  check_h5(H5Pset_libver_bounds(list.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_V110), "H5Pset_libver_bounds");
#if H5_VERSION_GE(1, 10, 7)
  check_h5(H5Pset_file_locking(list.get(), false, true), "H5Pset_file_locking");
#endif
  return list;
}

H5Handle with_parents() {
  H5Handle list(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "H5Pcreate");
  check_h5(H5Pset_create_intermediate_group(list.get(), 1), "H5Pset_create_intermediate_group");
  return list;
}

/// Without the time of writing: the same values give the same bytes.
H5Handle without_times() {
  H5Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "H5Pcreate");
  check_h5(H5Pset_obj_track_times(list.get(), false), "H5Pset_obj_track_times");
  return list;
}

H5Handle text_type() {
  H5Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "H5Tcopy");
  check_h5(H5Tset_size(type.get(), H5T_VARIABLE), "H5Tset_size");
  check_h5(H5Tset_cset(type.get(), H5T_CSET_UTF8), "H5Tset_cset");
  return type;
}

std::string place(const H5File& file, const std::string& object) { return file.path() + ":" + object; }

}  // namespace

H5Handle make_space(const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return H5Handle(H5Screate(H5S_SCALAR), H5Sclose, "H5Screate");
  const std::vector<hsize_t> extent(shape.begin(), shape.end());
  return H5Handle(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose,
                  "H5Screate_simple");
}

H5File H5File::create(const std::string& path, H5CreateOptions options) {
  prepare_hdf5();
  H5File file;
  file.path_ = path;
  file.report_ = std::make_unique<WriteReport>();
  file.report_->inject = std::move(options.inject);
  const H5Handle access = access_list();
  use_latching_driver(access.get(), *file.report_, options.sync, options.hash);
  const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get());
  if (id < 0 && file.report_->error != 0) {
    H5Eclear2(H5E_DEFAULT);
    const int error = file.report_->error;
    const bool disk = error == ENOSPC || error == EDQUOT || error == EIO;
    throw FileError(disk ? ExitCode::input_output : ExitCode::cannot_create, path, system_text("cannot create", error));
  }
  file.file_ = H5Handle(id, H5Fclose, "H5Fcreate", path);
  return file;
}

H5File H5File::open(const std::string& path) {
  prepare_hdf5();
  open_to_read(path).close(path);
  H5File file;
  file.path_ = path;
  const H5Handle access = access_list();
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get());
  if (id < 0) {
    H5Eclear2(H5E_DEFAULT);
    throw FileError(ExitCode::damaged_data, path, "is not an HDF5 file, or a damaged or unfinished one");
  }
  file.file_ = H5Handle(id, H5Fclose, "H5Fopen", path);
  return file;
}

void H5File::check_written() const {
  if (report_ && report_->error != 0) {
    throw FileError(ExitCode::input_output, path_,
                    system_text(fmt::format("cannot write ({} failed)", report_->call), report_->error));
  }
}

FileDigest H5File::close() {
  const herr_t closed = H5Fclose(std::exchange(file_, H5Handle()).release());
  check_written();
  check_h5(closed, "H5Fclose", path_);
  return report_ ? report_->digest : FileDigest{};
}

bool H5File::exists(const std::string& name) const {
  // H5Lexists wants every link on the way to exist.
  for (std::size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    const std::string part = name.substr(0, end);
    if (part != "/" && !part.empty() && check_h5(H5Lexists(id(), part.c_str(), H5P_DEFAULT), "H5Lexists", path_) == 0) {
      return false;
    }
    if (end == std::string::npos) return true;
  }
}

H5Handle H5File::open_dataset(const std::string& name) const {
  return H5Handle(H5Dopen2(id(), name.c_str(), H5P_DEFAULT), H5Dclose, "H5Dopen2", place(*this, name));
}

std::vector<std::int64_t> H5File::shape(const std::string& dataset) const {
  const H5Handle set = open_dataset(dataset);
  const H5Handle space(H5Dget_space(set.get()), H5Sclose, "H5Dget_space", place(*this, dataset));
  const int rank = check_h5(H5Sget_simple_extent_ndims(space.get()), "H5Sget_simple_extent_ndims", path_);
  std::vector<hsize_t> extent(static_cast<std::size_t>(rank));
  check_h5(H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr), "H5Sget_simple_extent_dims", path_);
  return {extent.begin(), extent.end()};
}

void H5File::write_raw(const std::string& dataset, hid_t memory, hid_t file, const void* values,
                       const std::vector<std::int64_t>& shape) {
  const std::string where = place(*this, dataset);
  const H5Handle space = make_space(shape);
  const H5Handle parents = with_parents();
  const H5Handle how = without_times();
  H5Handle set(H5Dcreate2(id(), dataset.c_str(), file, space.get(), parents.get(), how.get(), H5P_DEFAULT), H5Dclose,
               "H5Dcreate2", where);
  if (check_h5(H5Sget_simple_extent_npoints(space.get()), "H5Sget_simple_extent_npoints", where) > 0) {
    check_h5(H5Dwrite(set.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dwrite", where);
  }
  set.close(where);
  check_written();
}

std::size_t H5File::checked_count(const std::string& dataset, std::size_t element_bytes) const {
  std::int64_t bytes = static_cast<std::int64_t>(element_bytes);
  std::int64_t count = 1;
  for (const std::int64_t extent : shape(dataset)) {
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > kLargestDataset) {
      throw FileError(ExitCode::damaged_data, place(*this, dataset), "declares a size that cannot be right");
    }
    count *= extent;
  }
  return static_cast<std::size_t>(count);
}

void H5File::read_raw(const std::string& dataset, hid_t memory, void* values) const {
  const H5Handle set = open_dataset(dataset);
  check_h5(H5Dread(set.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dread", place(*this, dataset));
}

std::int64_t H5File::offset(const std::string& dataset) const {
  const H5Handle set = open_dataset(dataset);
  const haddr_t address = H5Dget_offset(set.get());
  if (address == HADDR_UNDEF) throw_h5("H5Dget_offset", place(*this, dataset));
  return static_cast<std::int64_t>(address);
}

void H5File::write_attribute_raw(const std::string& object, const std::string& name, hid_t memory, hid_t file,
                                 const void* values, const std::vector<std::int64_t>& shape) {
  const std::string where = place(*this, object) + "@" + name;
  const H5Handle space = make_space(shape);
  H5Handle attribute(
      H5Acreate_by_name(id(), object.c_str(), name.c_str(), file, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose, "H5Acreate_by_name", where);
  check_h5(H5Awrite(attribute.get(), memory, values), "H5Awrite", where);
  attribute.close(where);
}

void H5File::write_attribute(const std::string& object, const std::string& name, const std::string& text) {
  const H5Handle type = text_type();
  const char* pointer = text.c_str();
  write_attribute_raw(object, name, type.get(), type.get(), &pointer, {});
}

void H5File::read_attribute_raw(const std::string& object, const std::string& name, hid_t memory, void* values,
                                std::size_t count) const {
  const std::string where = place(*this, object) + "@" + name;
  const H5Handle attribute(H5Aopen_by_name(id(), object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                           "H5Aopen_by_name", where);
  const H5Handle space(H5Aget_space(attribute.get()), H5Sclose, "H5Aget_space", where);
  if (H5Sget_simple_extent_npoints(space.get()) != static_cast<hssize_t>(count)) {
    throw FileError(ExitCode::damaged_data, where, fmt::format("does not hold {} value(s)", count));
  }
  check_h5(H5Aread(attribute.get(), memory, values), "H5Aread", where);
}

std::string H5File::read_text_attribute(const std::string& object, const std::string& name) const {
  const std::string where = place(*this, object) + "@" + name;
  const H5Handle attribute(H5Aopen_by_name(id(), object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                           "H5Aopen_by_name", where);
  const H5Handle stored(H5Aget_type(attribute.get()), H5Tclose, "H5Aget_type", where);
  if (H5Tget_class(stored.get()) != H5T_STRING ||
      check_h5(H5Tis_variable_str(stored.get()), "H5Tis_variable_str") == 0) {
    throw FileError(ExitCode::damaged_data, where, "is not a text");
  }
  const H5Handle type = text_type();
  char* pointer = nullptr;
  check_h5(H5Aread(attribute.get(), type.get(), &pointer), "H5Aread", where);
  const std::string text = pointer ? pointer : "";
  check_h5(H5free_memory(pointer), "H5free_memory", where);
  return text;
}

}  // namespace pipefill
