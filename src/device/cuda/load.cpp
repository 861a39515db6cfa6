#include "device/cuda/load.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace pipefill {
namespace {

constexpr std::int32_t kMostDevices = 64;

std::string module_path() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path().parent_path() / PIPEFILL_MODULE_DIR / "libpipefill_cuda.so").string();
}

}  // namespace

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

CudaState look_for_cuda() {
  CudaState state;
  state.built = PIPEFILL_HAS_CUDA != 0;
  if (!state.built) {
    state.trouble = "this pipefill is built without CUDA";
    return state;
  }
  // Never unloaded: the CUDA runtime does not expect to be.
  const std::string path = module_path();
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    const char* const why = ::dlerror();
    state.trouble = fmt::format("cannot load the CUDA module: {}", why != nullptr ? why : path);
    return state;
  }
  const auto factory = reinterpret_cast<pipefill_cuda_factory*>(::dlsym(module, PIPEFILL_CUDA_FACTORY));
  const pipefill_cuda_backend* const backend = factory != nullptr ? factory() : nullptr;
  if (backend == nullptr || backend->abi != PIPEFILL_CUDA_ABI) {
    state.trouble = fmt::format("{} is of another version of pipefill; reinstall both together", path);
    return state;
  }
  state.module = path;
  state.driver_version = backend->driver_version();
  state.runtime_version = backend->runtime_version();
  std::array<char, 256> error{};
  state.devices.resize(kMostDevices);
  const std::int32_t count = backend->devices(state.devices.data(), kMostDevices, error.data(), error.size());
  state.devices.resize(static_cast<std::size_t>(std::clamp<std::int32_t>(count, 0, kMostDevices)));
  if (state.driver_version == 0)
    state.trouble = "there is no NVIDIA driver on this machine";
  else if (count < 0)
    state.trouble = error.data();
  else if (count == 0)
    state.trouble = "the driver sees no device; is CUDA_VISIBLE_DEVICES set?";
  return state;
}

}  // namespace pipefill
