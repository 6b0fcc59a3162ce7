// What NVIDIA's driver says of itself and of the GPUs that this process may use. The driver is
// asked without CUDA's libraries: which of them are of use depends on its answer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::trainer::cuda {

struct VisibleGpu {
  std::string name;        ///< "NVIDIA H200"
  int capability = 0;      ///< 90 for 9.0
  std::size_t memory = 0;  ///< bytes of all of it
};

struct DriverFacts {
  std::string why_not;  ///< it cannot be used, in words; empty: it can
  int version = 0;      ///< the newest CUDA that it knows: 13000
  std::vector<VisibleGpu> gpus = {};
};

/// `library`: what dlopen takes. Takes some 100 ms where there is a GPU.
DriverFacts ask_driver(const std::string& library = "libcuda.so.1");

/// Whether a driver may be here: looks for its device files in `dev`. Microseconds.
bool driver_likely(const std::string& dev = "/dev");

}  // namespace ddprun::trainer::cuda
