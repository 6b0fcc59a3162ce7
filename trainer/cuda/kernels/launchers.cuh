// A list of kernels as functions that launch them; the .cu file of each subject includes this.
#pragma once

#include <vector>

#include "trainer/cuda/kernel.hpp"
#include "trainer/cuda/kernels/kernel_table.hpp"

namespace ddprun::trainer::cuda {

template <class Kernel>
__global__ void __launch_bounds__(kBlockThreads) run_kernel(Kernel kernel) {
  using Traits = KernelTraits<Kernel>;
  using Shared = typename Traits::Shared;
  // As bytes: what is in it begins with the kernel's first phase, not with a constructor.
  __shared__ alignas(Shared) unsigned char place[sizeof(Shared)];
  Shared& shared = *reinterpret_cast<Shared*>(place);
  const ThreadPlace at{blockIdx.x, gridDim.x, threadIdx.x};
  for (int phase = 0; phase < Traits::kPhases; ++phase) {
    if (phase > 0) __syncthreads();
    Traits::run(kernel, at, phase, shared);
  }
}

// CUDA loads a kernel when it is first launched (CUDA_MODULE_LOADING=LAZY, its default), and that
// may wait for what the GPU does. It is left so: a run needs a fraction of the kernels, and eager
// loading would be for cuDNN's and cuBLASLt's too, which are hundreds of MB. A sum of NCCL that the
// loading waits for ends all the same: of all sums that ranks wait for so, the first one in their
// common order has been given to every GPU, or will be by a rank that waits for none.
template <class Kernel>
cudaError_t launch_kernel(const void* arguments, unsigned blocks, cudaStream_t stream) {
  run_kernel<<<blocks, kBlockThreads, 0, stream>>>(*static_cast<const Kernel*>(arguments));
  return cudaGetLastError();
}

template <class... Kernels>
std::vector<KernelLauncher> launchers(KernelList<Kernels...>) {
  return {launch_kernel<Kernels>...};
}

}  // namespace ddprun::trainer::cuda
