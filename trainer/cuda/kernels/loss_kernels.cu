#include "trainer/cuda/kernels/loss_kernels.hpp"

#include "trainer/cuda/kernels/launchers.cuh"

namespace ddprun::trainer::cuda {

std::vector<KernelLauncher> loss_launchers() { return launchers(LossKernels()); }

}  // namespace ddprun::trainer::cuda
