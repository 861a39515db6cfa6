// The CPU device: its memory is aligned, zero, counted and capped.
#include <gtest/gtest.h>

#include <cstdint>

#include "base/error.hpp"
#include "device/cpu/cpu_device.hpp"

namespace pipefill {
namespace {

TEST(CpuDevice, CountsWholeBuffersAndTheirPeak) {
  CpuDevice device(1, Bytes{4096});
  Buffer kept = device.allocate(Bytes{1000}, "kept");
  EXPECT_EQ(device.memory().in_use, Bytes{1024});
  {
    Buffer passing = device.allocate(Bytes{2048}, "passing");
    EXPECT_EQ(device.memory().in_use, Bytes{3072});
    EXPECT_EQ(device.memory().free(), Bytes{1024});
  }
  EXPECT_EQ(device.memory().in_use, Bytes{1024});
  EXPECT_EQ(device.memory().peak, Bytes{3072});
  Buffer moved = std::move(kept);
  EXPECT_EQ(device.memory().in_use, Bytes{1024});
  EXPECT_EQ(kept.size(), Bytes{0});
}

TEST(CpuDevice, MemoryIsAlignedAndZero) {
  CpuDevice device(1, Bytes{0});
  for (int size : {4, 100, 4096, 1 << 20}) {
    Buffer buffer = device.allocate(Bytes{size}, "buffer");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.as<float>().data()) % 64, 0U);
    EXPECT_GE(buffer.size().count, size);
    for (float x : buffer.as<float>()) ASSERT_EQ(x, 0.0F);
  }
}

TEST(CpuDevice, RefusesMoreThanItsLimitWithTheNumbers) {
  CpuDevice device(1, Bytes{1 << 20});
  Buffer half = device.allocate(Bytes{1 << 19}, "half");
  try {
    device.allocate(Bytes{(1 << 19) + 1}, "the stash");
    FAIL() << "nothing was refused";
  } catch (const DeviceError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("the stash"), std::string::npos) << text;
    EXPECT_NE(text.find("512.0 KiB"), std::string::npos) << text;
    EXPECT_NE(text.find("device.memory"), std::string::npos) << text;
  }
  EXPECT_EQ(device.memory().in_use, Bytes{1 << 19});
}

TEST(CpuDevice, AnEmptyBufferIsNoMemory) {
  CpuDevice device(1, Bytes{64});
  Buffer none = device.allocate(Bytes{0}, "nothing");
  EXPECT_TRUE(none.as<float>().empty());
  EXPECT_EQ(device.memory().in_use, Bytes{0});
}

}  // namespace
}  // namespace pipefill
