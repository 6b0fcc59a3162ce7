// A list of kernels as functions that launch them; each subject's .cu file includes this.
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
