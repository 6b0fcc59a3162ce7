// The GPU behind gpu.hpp: CUDA's runtime for memory, order, launches and graphs; cuBLASLt and cuDNN
// for products and convolutions.
#pragma once

#include <memory>

#include "trainer/cuda/gpu.hpp"
#include "trainer/cuda/plugin.hpp"

namespace ddprun::trainer::cuda {

/// Opens the libraries and then the GPU. Throws DataError where a library is missing or too old or
/// no kernel was built for this GPU; GpuError where CUDA fails.
std::unique_ptr<Gpu> make_cuda_gpu(const OpenGpu& settings);

}  // namespace ddprun::trainer::cuda
