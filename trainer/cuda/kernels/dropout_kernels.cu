#include "trainer/cuda/kernels/dropout_kernels.hpp"

#include "trainer/cuda/kernels/launchers.cuh"

namespace ddprun::trainer::cuda {

std::vector<KernelLauncher> dropout_launchers() { return launchers(DropoutKernels()); }

}  // namespace ddprun::trainer::cuda
