// The CPU as a Device: aligned host memory, an OpenMP team of a set size.
#pragma once

#include "device/device.hpp"

namespace pipefill {

class CpuDevice final : public Device {
 public:
  /// `threads` >= 1. `limit` of zero bytes: all of the host's memory.
  CpuDevice(int threads, Bytes limit);

  std::string describe() const override;
  const KernelContext& kernels() const override { return kernels_; }
  Buffer allocate(Bytes size, std::string_view what) override;
  /// Throws DeviceError unless `size` more may be allocated: a stage that does not fit is refused before it fills
  /// memory.
  void expect_room(Bytes size, std::string_view what) const;
  DeviceMemory memory() const override { return memory_; }

 private:
  void release(std::byte* data, Bytes size) noexcept override;

  KernelContext kernels_;
  DeviceMemory memory_;
};

/// Bytes of physical memory of this host.
Bytes host_memory();

}  // namespace pipefill
