// What cuBLASLt and cuDNN do, on the host.
#pragma once

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::test {

/// `tf32`: floats are rounded to tf32 before they are multiplied.
void emulate(const cuda::MatrixProduct& product, bool tf32);
/// By the CPU's own convolution.
void emulate(const cuda::ConvolutionCall& call, bool tf32);

}  // namespace ddprun::trainer::test
