// Checks, error texts and ownership of HDF5 identifiers; see h5_handle.hpp.
#include "storage/h5_handle.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"

namespace pipefill {
namespace {

herr_t append_error(unsigned, const H5E_error2_t* error, void* text) {
  auto& stack = *static_cast<std::string*>(text);
  if (!stack.empty()) stack += "; ";
  stack += fmt::format("{}: {}", error->func_name ? error->func_name : "?", error->desc ? error->desc : "?");
  return 0;
}

}  // namespace

void throw_h5(const char* call, const std::string& path) {
  std::string stack;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, append_error, &stack);
  H5Eclear2(H5E_DEFAULT);
  throw FileError(ExitCode::input_output, path.empty() ? "HDF5" : path,
                  fmt::format("{} failed: {}", call, stack.empty() ? "no reason given" : stack));
}

H5Handle::H5Handle(hid_t id, CloseFunction close_function, const char* call, const std::string& path)
    : id_(check_h5(id, call, path)), close_(close_function) {}

H5Handle::H5Handle(H5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}

H5Handle& H5Handle::operator=(H5Handle&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(close_, other.close_);
  return *this;
}

H5Handle::~H5Handle() {
  if (id_ >= 0) close_(id_);
}

void H5Handle::close(const std::string& path) {
  const hid_t id = std::exchange(id_, -1);
  if (id >= 0) check_h5(close_(id), "closing an HDF5 object", path);
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  check_h5(H5get_libversion(&major, &minor, &release), "H5get_libversion");
  return fmt::format("{}.{}.{}", major, minor, release);
}

void prepare_hdf5() {
  check_h5(H5open(), "H5open");
  check_h5(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "H5Eset_auto2");
  check_h5(H5PLset_loading_state(0), "H5PLset_loading_state");
}

}  // namespace pipefill
