// The CPU as a device: its memory is the host's, and each call has done its work when it returns.
#pragma once

#include <memory>

#include "trainer/compute/device.hpp"

namespace ddprun::trainer {

/// How a device keeps bf16.
enum class Bf16 {
  stored_if_possible,  ///< in two bytes where the CPU has instructions for it, else rounded
  rounded,             ///< as floats, as on any other CPU
};

/// fp16 is rounded there. Element-wise layers run on the calling thread alone.
std::unique_ptr<Device> make_host_device(Bf16 bf16 = Bf16::stored_if_possible);

}  // namespace ddprun::trainer
