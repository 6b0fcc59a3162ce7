// The kernels of all subjects, by their numbers in AllKernels.
#pragma once

#include <string>
#include <vector>

#include "trainer/cuda/kernels/kernel_table.hpp"

namespace ddprun::trainer::cuda {

std::vector<KernelLauncher> all_launchers();

/// For messages.
std::string kernel_name(int number);

}  // namespace ddprun::trainer::cuda
