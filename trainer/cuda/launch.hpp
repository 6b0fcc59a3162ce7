// Launches, on the compute stream unless another one is named.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {

/// Enough to fill any GPU of today several times; loops over elements take what is left in strides.
inline constexpr std::size_t kBlocksMax = 4096;

template <class Kernel>
void launch(Gpu& gpu, unsigned blocks, const Kernel& kernel) {
  gpu.launch(Stream::compute, launch_of(kernel, blocks));
}

/// One thread for each element, or for each Kernel::kValues of them, as far as blocks go.
template <class Kernel>
Launch launch_covering(std::size_t elements, const Kernel& kernel) {
  std::size_t threads = elements;
  if constexpr (requires { Kernel::kValues; })
    threads = (elements + Kernel::kValues - 1) / Kernel::kValues;
  const std::size_t blocks = (threads + kBlockThreads - 1) / kBlockThreads;
  return launch_of(kernel, static_cast<unsigned>(std::min(blocks, kBlocksMax)));
}

/// `launch(Launch)` is called once, and not for no elements.
template <std::invocable<const Launch&> Function, class Kernel>
void launch_over(const Function& launch, std::size_t elements, const Kernel& kernel) {
  if (elements > 0) launch(launch_covering(elements, kernel));
}

/// Launches over the elements on a stream of a GPU, and not for no elements.
template <class Kernel>
void launch_over(Gpu& gpu, std::size_t elements, const Kernel& kernel,
                 Stream stream = Stream::compute) {
  launch_over([&](const Launch& one) { gpu.launch(stream, one); }, elements, kernel);
}

}  // namespace ddprun::trainer::cuda
