// The trainer's kernels as functions of the host.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::test {

struct EmulatedKernel {
  std::string name;
  std::size_t bytes = 0;  ///< of its arguments
  /// What runs all threads of all blocks, with a copy of the arguments.
  std::function<std::function<void()>(const cuda::Launch&)> bind;
};

/// By its number.
const EmulatedKernel& emulated_kernel(int number);

}  // namespace ddprun::trainer::test
