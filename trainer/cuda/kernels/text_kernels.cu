#include "trainer/cuda/kernels/text_kernels.hpp"

#include "trainer/cuda/kernels/launchers.cuh"

namespace ddprun::trainer::cuda {

std::vector<KernelLauncher> text_launchers() { return launchers(TextKernels()); }

}  // namespace ddprun::trainer::cuda
