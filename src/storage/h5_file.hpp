// An HDF5 file through the serial C API, every result checked: created through the error-latching driver, or opened to
// read; typed datasets and attributes. Call everything on the process's one HDF5 thread (storage/hdf5_thread).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/h5_handle.hpp"
#include "storage/latching_driver.hpp"

namespace pipefill {

/// The type in memory (native) and in the file (little-endian) of a C++ number. Borrowed identifiers: never close them.
template <class T>
struct H5Type;
// clang-format off
template <> struct H5Type<float>         { static hid_t memory() { return H5T_NATIVE_FLOAT; }  static hid_t file() { return H5T_IEEE_F32LE; } };
template <> struct H5Type<double>        { static hid_t memory() { return H5T_NATIVE_DOUBLE; } static hid_t file() { return H5T_IEEE_F64LE; } };
template <> struct H5Type<std::uint8_t>  { static hid_t memory() { return H5T_NATIVE_UINT8; }  static hid_t file() { return H5T_STD_U8LE; } };
template <> struct H5Type<std::int16_t>  { static hid_t memory() { return H5T_NATIVE_INT16; }  static hid_t file() { return H5T_STD_I16LE; } };
template <> struct H5Type<std::int32_t>  { static hid_t memory() { return H5T_NATIVE_INT32; }  static hid_t file() { return H5T_STD_I32LE; } };
template <> struct H5Type<std::int64_t>  { static hid_t memory() { return H5T_NATIVE_INT64; }  static hid_t file() { return H5T_STD_I64LE; } };
template <> struct H5Type<std::uint64_t> { static hid_t memory() { return H5T_NATIVE_UINT64; } static hid_t file() { return H5T_STD_U64LE; } };
// clang-format on

struct H5CreateOptions {
  SyncOnClose sync = SyncOnClose::fsync;
  HashOnClose hash = HashOnClose::none;
  std::function<int(const char* call)> inject = {};  ///< tests only, see WriteReport
};

class H5File {
 public:
  /// A new file (an existing one is refused, 73) through the latching driver. Format readable from HDF5 1.10 on.
  static H5File create(const std::string& path, H5CreateOptions options = {});
  /// To read, with file locks off. Missing 66; not HDF5 or damaged 65. Never open a file that you do not trust.
  static H5File open(const std::string& path);
  H5File(H5File&&) noexcept = default;
  H5File& operator=(H5File&&) noexcept = default;
  /// Closes without reporting: a file whose writing matters is closed with close().
  ~H5File() = default;

  hid_t id() const { return file_.get(); }
  const std::string& path() const { return path_; }
  /// Throws FileError 74 when a system call on a file being written has failed so far.
  void check_written() const;
  /// H5Fclose, then the latch: FileError 74 with the call and the reason of the first failure. The file is then
  /// incomplete, and removing it is the caller's job. Returns size and, where asked for, hash.
  FileDigest close();

  bool exists(const std::string& name) const;
  /// Length of the one-dimensional, or shape of any, dataset.
  std::vector<std::int64_t> shape(const std::string& dataset) const;

  /// A contiguous dataset of `shape`, groups on the way made. values.size() == product of shape.
  template <class T>
  void write(const std::string& dataset, std::span<const T> values, const std::vector<std::int64_t>& shape) {
    write_raw(dataset, H5Type<T>::memory(), H5Type<T>::file(), values.data(), shape);
  }
  /// The same for any type, compound ones say: `memory` describes `values`, `file` what is stored.
  void write_raw(const std::string& dataset, hid_t memory, hid_t file, const void* values,
                 const std::vector<std::int64_t>& shape);
  /// The whole dataset. Its declared size is checked against the file's before anything is allocated.
  template <class T>
  std::vector<T> read(const std::string& dataset) const {
    std::vector<T> values(checked_count(dataset, sizeof(T)));
    read_raw(dataset, H5Type<T>::memory(), values.data());
    return values;
  }
  void read_raw(const std::string& dataset, hid_t memory, void* values) const;
  /// Number of elements; 65 when that many elements of `element_bytes` exceed 2^40 bytes.
  std::size_t checked_count(const std::string& dataset, std::size_t element_bytes) const;
  /// Where a contiguous dataset's bytes lie in the file.
  std::int64_t offset(const std::string& dataset) const;

  /// Attributes of the object `object` ("/" is the file). A span is stored as a vector, a value as a scalar.
  template <class T>
  void write_attribute(const std::string& object, const std::string& name, std::span<const T> values) {
    write_attribute_raw(object, name, H5Type<T>::memory(), H5Type<T>::file(), values.data(),
                        {static_cast<std::int64_t>(values.size())});
  }
  template <class T>
  void write_attribute(const std::string& object, const std::string& name, const T& value) {
    write_attribute_raw(object, name, H5Type<T>::memory(), H5Type<T>::file(), &value, {});
  }
  /// UTF-8 of variable length, which h5py gives back as str (fixed length would be bytes).
  void write_attribute(const std::string& object, const std::string& name, const std::string& text);
  void write_attribute(const std::string& object, const std::string& name, const char* text) {
    write_attribute(object, name, std::string(text));
  }
  void write_attribute_raw(const std::string& object, const std::string& name, hid_t memory, hid_t file,
                           const void* values, const std::vector<std::int64_t>& shape);
  template <class T>
  T read_attribute(const std::string& object, const std::string& name) const {
    T value{};
    read_attribute_raw(object, name, H5Type<T>::memory(), &value, 1);
    return value;
  }
  std::string read_text_attribute(const std::string& object, const std::string& name) const;

  /// Opens a dataset for calls that this class does not cover.
  H5Handle open_dataset(const std::string& name) const;

 private:
  H5File() = default;
  void read_attribute_raw(const std::string& object, const std::string& name, hid_t memory, void* values,
                          std::size_t count) const;

  std::string path_;
  std::unique_ptr<WriteReport> report_;  ///< null for a file opened to read; declared before, so outlives, file_
  H5Handle file_;
};

/// A simple data space of `shape`; empty: scalar.
H5Handle make_space(const std::vector<std::int64_t>& shape);

}  // namespace pipefill
