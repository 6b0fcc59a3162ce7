// Another device whose memory is counted: how much of it there was at most at one time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "tests/unit/trainer/host/delegating_device.hpp"

namespace ddprun::trainer::test {

class CountingDevice final : public DelegatingDevice {
 public:
  explicit CountingDevice(Device& device) : DelegatingDevice(device) {}

  [[nodiscard]] std::size_t most_bytes() const { return most_; }

  DeviceMemory allocate(std::size_t bytes) override {
    auto memory = std::make_shared<DeviceMemory>(DelegatingDevice::allocate(bytes));
    now_ += bytes;
    most_ = std::max(most_, now_);
    std::byte* const data = memory->data();
    return DeviceMemory(data, bytes, [this, bytes, memory](std::byte*) mutable {
      now_ -= bytes;
      memory.reset();
    });
  }

 private:
  std::size_t now_ = 0;
  std::size_t most_ = 0;
};

}  // namespace ddprun::trainer::test
