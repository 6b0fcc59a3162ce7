// Which GPUs this job uses, and what each worker sees of them. Pure: what the machine has is given.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/launch_error.hpp"
#include "launcher/options/options.hpp"
#include "machine/devices/devices.hpp"
#include "machine/devices/gpu_claims.hpp"

namespace ddprun::launcher {

/// The node's GPUs, or other accelerators, as this job uses them.
struct DevicesPlan {
  std::vector<std::string> chosen;  ///< entries for the variable: `0`, `GPU-1b2c...`, `MIG-...`
  std::string variable = "CUDA_VISIBLE_DEVICES";  ///< workers see what it names
  bool cpu_job = false;                           ///< --gpus=none: workers shall see no GPU
  std::string source;  ///< how they were found, for people; empty: they were not looked for
  std::vector<machine::GpuClaim> claims;  ///< of --gpus=free: those in `chosen`
  std::vector<std::string> warnings;
};

/// What CUDA, or another vendor's software, would use.
struct VisibleGpus {
  std::vector<std::string> entries;  ///< for the variable
  std::string note;                  ///< not empty: what is wrong with the variable
};

/// The entries of CUDA_VISIBLE_DEVICES, or of the vendor's own variable, before the first invalid
/// one; none when one occurs twice. Without the variable all discovered GPUs, by number.
VisibleGpus visible_gpus(const machine::GpuDiscovery& discovered,
                         const std::optional<std::string>& variable);

/// Takes away the GPUs that the outer variable, set to `outer`, hides.
void hide_gpus(machine::GpuDiscovery& discovered, const std::string& outer);

/// The entries of CUDA_VISIBLE_DEVICES where no GPU can be looked at; none where it hides all.
std::vector<std::string> unchecked_entries(const std::string& cuda_visible_devices);

/// Why there is none, for the end of a sentence: what was looked for, or that the variable hides
/// all.
std::string no_gpu(const machine::GpuDiscovery& discovered,
                   const std::optional<std::string>& variable);

/// Applies --gpus to the visible ones. For --gpus=free all of them: take_free_gpus chooses.
LaunchResult<DevicesPlan> plan_devices(const machine::GpuDiscovery& discovered,
                                       const std::optional<std::string>& variable,
                                       const GpuSelection& selection);

/// What claims GPUs on the machine: see machine/devices/gpu_claims.hpp.
using ClaimGpus =
    std::function<machine::GpuClaims(std::vector<machine::GpuCandidate>, std::size_t)>;

/// For --gpus=free: of the chosen ones those that are free, `wanted` or all (0), which are claimed.
/// An error where there are fewer, or none.
LaunchResult<void> take_free_gpus(const machine::GpuDiscovery& discovered,
                                  const GpuSelection& selection, std::size_t wanted,
                                  const ClaimGpus& claim, DevicesPlan& plan);

/// The variable's value for one worker; empty optional: leave it as it is (also when it is not
/// there).
std::optional<std::string> worker_visible_devices(const DevicesPlan& devices,
                                                  const std::optional<std::string>& variable,
                                                  const GpuSelection& selection,
                                                  GpuVisibility visibility, int local_rank);

}  // namespace ddprun::launcher
