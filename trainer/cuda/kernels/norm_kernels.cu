#include "trainer/cuda/kernels/norm_kernels.hpp"

#include "trainer/cuda/kernels/launchers.cuh"

namespace ddprun::trainer::cuda {

std::vector<KernelLauncher> norm_launchers() { return launchers(NormKernels()); }

}  // namespace ddprun::trainer::cuda
