// The module's one door: its factory, and what it knows of the devices. Everything else of the CUDA backend stays
// inside.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "device/cuda/backend.h"

namespace {

/// False: `error` says which call failed and how.
bool good(cudaError_t result, const char* call, char* error, std::size_t error_bytes) {
  if (result == cudaSuccess) return true;
  std::snprintf(error, error_bytes, "%s: %s (%s)", call, cudaGetErrorString(result), cudaGetErrorName(result));
  return false;
}

void write_uuid(const cudaUUID_t& uuid, char* text, std::size_t bytes) {
  unsigned char b[16];
  std::memcpy(b, uuid.bytes, sizeof b);
  std::snprintf(text, bytes, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

std::int32_t driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

std::int32_t runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

std::int32_t devices(pipefill_cuda_device* out, std::int32_t room, char* error, std::size_t error_bytes) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaErrorNoDevice) return 0;
  if (!good(result, "cudaGetDeviceCount", error, error_bytes)) return -1;
  for (int i = 0; i < std::min(count, room); ++i) {
    cudaDeviceProp properties{};
    if (!good(cudaGetDeviceProperties(&properties, i), "cudaGetDeviceProperties", error, error_bytes)) return -1;
    pipefill_cuda_device& device = out[i];
    device = {};
    std::snprintf(device.name, sizeof device.name, "%s", properties.name);
    write_uuid(properties.uuid, device.uuid, sizeof device.uuid);
    std::snprintf(device.pci, sizeof device.pci, "%04x:%02x:%02x.0", properties.pciDomainID, properties.pciBusID,
                  properties.pciDeviceID);
    device.compute_major = properties.major, device.compute_minor = properties.minor;
    device.multiprocessors = properties.multiProcessorCount;
    device.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  }
  return count;
}

constexpr pipefill_cuda_backend kBackend{PIPEFILL_CUDA_ABI, driver_version, runtime_version, devices};

}  // namespace

extern "C" __attribute__((visibility("default"))) const pipefill_cuda_backend* pipefill_cuda_backend_of_this_module() {
  return &kBackend;
}
