#include "trainer/cuda/kernels/sum_kernels.hpp"

#include "trainer/cuda/kernels/launchers.cuh"

namespace ddprun::trainer::cuda {

std::vector<KernelLauncher> sum_launchers() { return launchers(SumKernels()); }

}  // namespace ddprun::trainer::cuda
