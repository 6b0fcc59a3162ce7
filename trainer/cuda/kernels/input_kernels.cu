#include "trainer/cuda/kernels/input_kernels.hpp"

#include "trainer/cuda/kernels/launchers.cuh"

namespace ddprun::trainer::cuda {

std::vector<KernelLauncher> input_launchers() { return launchers(InputKernels()); }

}  // namespace ddprun::trainer::cuda
