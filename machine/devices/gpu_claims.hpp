// GPUs that nothing uses, and that one ddprun of this machine at a time may take, whoever the user
// is (--gpus=free).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_handle.hpp"
#include "machine/devices/nvml.hpp"

namespace ddprun::machine {

struct GpuCandidate {
  std::string entry;  ///< as messages and CUDA_VISIBLE_DEVICES name it
  std::string uuid;
};

/// A GPU is claimed as long as a process has `held` open.
struct GpuClaim {
  GpuCandidate gpu;
  UniqueFd held;
};

struct BusyGpu {
  std::string entry;
  std::string why;  ///< `pid 4242 (python3, uid 1000) uses 12.3 GiB`
};

struct GpuClaims {
  std::vector<GpuClaim> claimed;  ///< none where there are fewer than wanted
  std::vector<BusyGpu> busy;      ///< those that were looked at and are not free
  std::string problem;            ///< not empty: why none could be claimed at all
};

/// Why a GPU is not free; empty: it is.
std::string why_not_free(const GpuUse& use);

/// why_not_free, of a UUID.
using LookAtGpu = std::function<std::string(const std::string& uuid)>;

/// Asks the driver, in one session for all looks.
LookAtGpu look_by_nvml();

/// Claims the first `wanted` candidates, or all, that are free. One ddprun at a time chooses, so
/// that two that want several do not take them from each other. Claims are seen by all that share
/// our network namespace.
GpuClaims claim_free_gpus(std::vector<GpuCandidate> candidates, std::size_t wanted,
                          const LookAtGpu& why_not_free);

/// Waits until all are free, or the limit has passed, and calls `say` with lines for the user.
/// Returns whether they are free.
bool await_free_gpus(const std::vector<GpuCandidate>& gpus, std::chrono::milliseconds limit,
                     const LookAtGpu& why_not_free,
                     const std::function<void(const std::string& line)>& say);

}  // namespace ddprun::machine
