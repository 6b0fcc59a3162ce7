#include "trainer/cuda/kernels/pool_kernels.hpp"

#include "trainer/cuda/kernels/launchers.cuh"

namespace ddprun::trainer::cuda {

std::vector<KernelLauncher> pool_launchers() { return launchers(PoolKernels()); }

}  // namespace ddprun::trainer::cuda
