// A GPU as a device.
#pragma once

#include <memory>

#include "trainer/compute/device.hpp"
#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {

/// For one thread. What the calls ask for is done in their order on the GPU's compute stream; only
/// copy_out() and hash() wait. The GPU outlives the device.
std::unique_ptr<Device> make_cuda_device(Gpu& gpu);

}  // namespace ddprun::trainer::cuda
