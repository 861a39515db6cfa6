// Where work runs: its memory, counted and capped, and the context its kernels run in. One Device per stage; several
// may live in one process (tests run a pipeline as threads). CUDA joins as another implementation.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/units.hpp"
#include "kernels/context.hpp"

namespace pipefill {

class Device;

/// Memory of a device, 64-byte aligned, zero at first. Move-only; gives its bytes back to the device, which must
/// outlive it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, std::byte* data, Bytes size) : device_(&device), data_(data), size_(size) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept { return swap(other), *this; }
  ~Buffer();

  Bytes size() const { return size_; }
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), static_cast<std::size_t>(size_.count) / sizeof(T)};
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_), std::swap(data_, other.data_), std::swap(size_, other.size_);
  }
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  Bytes size_{};
};

/// `limit` is what a stage may allocate; `in_use` and `peak` count whole buffers.
struct DeviceMemory {
  Bytes limit{};
  Bytes in_use{};
  Bytes peak{};
  Bytes free() const { return limit - in_use; }
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// "cpu, 2 threads"
  virtual std::string describe() const = 0;
  /// What every kernel on this device is handed; used by one host thread at a time.
  virtual const KernelContext& kernels() const = 0;
  /// `what` names the buffer in the DeviceError thrown when it would go over the limit (with all numbers) or when the
  /// system has no such memory. Slow by nature (first touch); allocate once, when a stage is built.
  virtual Buffer allocate(Bytes size, std::string_view what) = 0;
  virtual DeviceMemory memory() const = 0;

 private:
  friend class Buffer;
  virtual void release(std::byte* data, Bytes size) noexcept = 0;
};

inline Buffer::~Buffer() {
  if (data_ != nullptr) device_->release(data_, size_);
}

}  // namespace pipefill
