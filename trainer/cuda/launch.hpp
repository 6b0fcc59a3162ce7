// Launches, on the compute stream unless another one is named.
#pragma once

#include <algorithm>
#include <cstddef>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {

/// Enough to fill any GPU of today several times; loops over elements take what is left in strides.
inline constexpr std::size_t kBlocksMax = 4096;

template <class Kernel>
void launch(Gpu& gpu, unsigned blocks, const Kernel& kernel) {
  gpu.launch(Stream::compute, launch_of(kernel, blocks));
}

/// One thread an element, as far as blocks go. Nothing of no elements.
template <class Kernel>
void launch_over(Gpu& gpu, std::size_t elements, const Kernel& kernel,
                 Stream stream = Stream::compute) {
  if (elements == 0) return;
  const std::size_t blocks = (elements + kBlockThreads - 1) / kBlockThreads;
  gpu.launch(stream, launch_of(kernel, static_cast<unsigned>(std::min(blocks, kBlocksMax))));
}

}  // namespace ddprun::trainer::cuda
