#include "trainer/cuda/kernels/element_kernels.hpp"

#include "trainer/cuda/kernels/launchers.cuh"

namespace ddprun::trainer::cuda {

std::vector<KernelLauncher> element_launchers() { return launchers(ElementKernels()); }

}  // namespace ddprun::trainer::cuda
