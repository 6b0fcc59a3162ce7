// Marks functions that g++ compiles for the CPU and nvcc for the GPU from the same text.
#pragma once

#ifdef __CUDACC__
#define DDPRUN_HOST_DEVICE __host__ __device__
#else
#define DDPRUN_HOST_DEVICE
#endif
