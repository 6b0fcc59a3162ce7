#include "trainer/cuda/kernels/arena_kernels.hpp"

#include "trainer/cuda/kernels/launchers.cuh"

namespace ddprun::trainer::cuda {

std::vector<KernelLauncher> arena_launchers() { return launchers(ArenaKernels()); }

}  // namespace ddprun::trainer::cuda
