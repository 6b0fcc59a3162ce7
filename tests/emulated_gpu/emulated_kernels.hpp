// The trainer's kernels as functions of the host.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::test {

struct EmulatedKernel {
  std::string name;
  /// Its arguments as words; what lies between them is 0.
  std::function<std::vector<std::uintptr_t>(const cuda::Launch&)> words;
  /// What runs all threads of all blocks, with a copy of the arguments.
  std::function<std::function<void()>(const cuda::Launch&)> bind;
};

/// By its number.
const EmulatedKernel& emulated_kernel(int number);

}  // namespace ddprun::trainer::test
