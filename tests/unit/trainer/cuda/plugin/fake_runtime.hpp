// CUDA's runtime without a GPU, as a test wants it.
#pragma once

#include <cuda_runtime_api.h>

namespace ddprun::trainer::cuda::test {

/// An error that no call clears, as after a wrong access of a kernel. All tests of the program
/// share it.
inline cudaError_t lasting_error = cudaSuccess;

}  // namespace ddprun::trainer::cuda::test
