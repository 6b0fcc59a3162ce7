// The CPU as a device: its memory is the host's, and each call has done its work when it returns.
#pragma once

#include <memory>

#include "trainer/compute/device.hpp"

namespace ddprun::trainer {

/// bf16 and fp16 are rounded floats there. Element-wise layers run on the calling thread alone.
std::unique_ptr<Device> make_host_device();

}  // namespace ddprun::trainer
