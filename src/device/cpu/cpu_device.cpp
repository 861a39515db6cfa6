// Host memory for a stage: counted against the limit, aligned, touched when it is allocated.
#include "device/cpu/cpu_device.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/contract.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace pipefill {

Bytes host_memory() {
  return Bytes{static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE))};
}

CpuDevice::CpuDevice(int threads, Bytes limit) : kernels_(threads) {
  memory_.limit = limit.count > 0 ? limit : host_memory();
}

std::string CpuDevice::describe() const {
  return fmt::format("cpu, {} thread{}", kernels_.threads(), kernels_.threads() == 1 ? "" : "s");
}

void CpuDevice::expect_room(Bytes size, std::string_view what) const {
  if (size > memory_.free()) {
    throw DeviceError(
        fmt::format("{}: {} are needed, but only {} of the {} that device.memory allows this rank are free. Use "
                    "a smaller model or microbatch, more stages, or a higher device.memory.",
                    what, format_bytes(size), format_bytes(memory_.free()), format_bytes(memory_.limit)));
  }
}

Buffer CpuDevice::allocate(Bytes size, std::string_view what) {
  PF_EXPECT(size.count >= 0);
  if (size.count == 0) return {};
  const Bytes rounded{(size.count + 63) / 64 * 64};
  expect_room(rounded, what);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>(rounded.count)));
  if (data == nullptr) {
    throw DeviceError(
        fmt::format("{}: {} are needed, and the system has no such memory ({} allocated by this rank so far).", what,
                    format_bytes(size), format_bytes(memory_.in_use)));
  }
  // The first touch of a page costs microseconds; paid here, not in the first step.
  std::memset(data, 0, static_cast<std::size_t>(rounded.count));
  memory_.in_use += rounded;
  memory_.peak = std::max(memory_.peak, memory_.in_use);
  return {*this, data, rounded};
}

void CpuDevice::release(std::byte* data, Bytes size) noexcept {
  std::free(data);
  memory_.in_use -= size;
}

}  // namespace pipefill
