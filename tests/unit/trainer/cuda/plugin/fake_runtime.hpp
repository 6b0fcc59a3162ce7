// CUDA's runtime without a GPU, as a test wants it.
#pragma once

#include <cuda_runtime_api.h>

namespace ddprun::trainer::cuda::test {

/// That no call clears, as after a wrong access of a kernel. Of all tests of the program.
inline cudaError_t lasting_error = cudaSuccess;

}  // namespace ddprun::trainer::cuda::test
