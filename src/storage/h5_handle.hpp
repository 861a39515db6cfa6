// One checked HDF5 identifier: its close function with it. Every HDF5 result of the project goes through check_h5.
#pragma once

#include <hdf5.h>

#include <string>
#include <type_traits>
#include <utility>

namespace pipefill {

/// Throws FileError 74: the path (empty: none known), the call and HDF5's error stack, innermost reason first.
[[noreturn]] void throw_h5(const char* call, const std::string& path);

/// Returns `result`, or throws when it is negative, as HDF5's failures are.
template <class T>
  requires std::is_signed_v<T>
T check_h5(T result, const char* call, const std::string& path = {}) {
  if (result < 0) throw_h5(call, path);
  return result;
}

/// Owns an identifier. The destructor closes it and cannot report; close() does.
class H5Handle {
 public:
  using CloseFunction = herr_t (*)(hid_t);

  H5Handle() = default;
  /// Throws FileError 74 when `id` is invalid: H5Handle group(H5Gopen2(...), H5Gclose, "H5Gopen2", path).
  H5Handle(hid_t id, CloseFunction close_function, const char* call, const std::string& path = {});
  H5Handle(H5Handle&& other) noexcept;
  H5Handle& operator=(H5Handle&& other) noexcept;
  ~H5Handle();
  hid_t get() const { return id_; }
  /// Gives the identifier away, to be closed by the caller.
  hid_t release() { return std::exchange(id_, -1); }
  /// Closes now; a failure (HDF5 often reports a failed write only here) is FileError 74.
  void close(const std::string& path = {});

 private:
  hid_t id_ = -1;
  CloseFunction close_ = nullptr;
};

/// "1.10.8": the library that was loaded.
std::string hdf5_version();

/// What every use of the library begins with: no error printing of its own, no filter plug-ins. Cheap; called by
/// H5File.
void prepare_hdf5();

}  // namespace pipefill
