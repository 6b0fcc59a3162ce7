// What NVIDIA's driver says of itself and of the GPUs that this process may use. The driver is
// asked without CUDA's libraries: which of them are of use depends on its answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
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

/// `library`: what dlopen takes.
inline constexpr const char* kDriverLibrary = "libcuda.so.1";

/// A driver that hangs (a GPU that fell off the bus) never answers.
struct DriverWait {
  /// With many GPUs and no nvidia-persistenced an answer takes half a minute.
  std::chrono::milliseconds limit{120'000};
  std::chrono::milliseconds warn_after{10'000};
  std::function<void(const std::string& text)> warn = {};  ///< called once, if it takes so long
};

/// Takes some 100 ms where there is a GPU. Waits no longer than `wait` allows: what asks the driver
/// then stays in a thread of its own.
DriverFacts ask_driver(const std::string& library = kDriverLibrary, const DriverWait& wait = {});

/// Whether a driver may be here: looks for its device files in `dev`. Microseconds, but on WSL.
bool driver_likely(const std::string& dev = "/dev", const std::string& library = kDriverLibrary);

}  // namespace ddprun::trainer::cuda
