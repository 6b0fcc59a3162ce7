// What cuBLASLt and cuDNN do, on the host.
#pragma once

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::test {

void emulate(const cuda::MatrixProduct& product);
/// By the CPU's own convolution.
void emulate(const cuda::ConvolutionCall& call);

}  // namespace ddprun::trainer::test
