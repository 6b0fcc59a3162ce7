// A GPU as a device, and how its optimizer's pass is cut.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "trainer/compute/device.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/cuda/kernels/arena_kernels.hpp"
#include "trainer/model/parameter.hpp"

namespace ddprun::trainer::cuda {

/// For one thread. What the calls ask for is done in their order on the GPU's compute stream; only
/// copy_out() and hash() wait. The GPU outlives the device.
std::unique_ptr<Device> make_cuda_device(Gpu& gpu);

/// The parts of the parameters (by rising offset) that lie in arena elements [begin, end), in
/// pieces that a block updates in a few microseconds. `decay`: of those parameters that have one.
std::vector<UpdatePiece> update_pieces(std::span<const Parameter> parameters, double decay,
                                       std::size_t begin, std::size_t end);

}  // namespace ddprun::trainer::cuda
