// The kernels as CUDA launches them.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

namespace ddprun::trainer::cuda {

/// Launches one kernel: `arguments` is its struct.
using KernelLauncher = cudaError_t (*)(const void* arguments, unsigned blocks, cudaStream_t stream);

// By subject, in the order of its list.
std::vector<KernelLauncher> arena_launchers();
std::vector<KernelLauncher> dropout_launchers();
std::vector<KernelLauncher> element_launchers();
std::vector<KernelLauncher> input_launchers();
std::vector<KernelLauncher> loss_launchers();
std::vector<KernelLauncher> norm_launchers();
std::vector<KernelLauncher> pool_launchers();
std::vector<KernelLauncher> sum_launchers();
std::vector<KernelLauncher> text_launchers();

}  // namespace ddprun::trainer::cuda
