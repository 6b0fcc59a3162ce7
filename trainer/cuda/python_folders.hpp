// Where pip has put NVIDIA's libraries: the python3 on PATH knows.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace ddprun::trainer::cuda {

/// Existing folders nvidia/*/lib in the folders of packages of `python`; empty if it cannot be run
/// or does not answer within `limit` (it is killed then).
std::vector<std::string> python_package_folders(const char* python,
                                                std::chrono::milliseconds limit);
/// Folders of the python3 on PATH; asked once for each process.
std::vector<std::string> python_package_folders();

}  // namespace ddprun::trainer::cuda
