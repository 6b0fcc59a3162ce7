// GPUs of this machine, found without linking CUDA: NVML opened at run time, else what the driver
// shows in /proc and /dev.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::machine {

struct Gpu {
  int index = 0;                 ///< by which the variable names it; NVML counts in PCI order
  std::string uuid;              ///< `GPU-...`; empty when the source does not tell
  std::string pci_address = {};  ///< as sysfs spells it, `0000:41:00.0`; empty likewise
};

/// GpuDiscovery::source where the driver itself was asked.
inline constexpr std::string_view kNvmlSource = "NVML";

struct GpuDiscovery {
  std::vector<Gpu> gpus;
  /// `NVML`, `/proc/driver/nvidia/gpus`, `/dev/nvidia*`; empty when none was found.
  std::string source;
  std::string looked_for;  ///< what was tried and what came of it, for messages

  std::string name = "GPU";  ///< of one device, for messages
  /// Workers see the devices that it names.
  std::string variable = "CUDA_VISIBLE_DEVICES";
  std::string other_variable = {};  ///< in its place, where only this one is set; empty: none
  /// Hides devices from `variable`, which counts the others from 0; empty: none.
  std::string outer_variable = {};
  bool has_parts = false;  ///< `variable` may name a part of a device, as in 0.1
};

/// Where to look. Tests give their own.
struct GpuPlaces {
  std::string nvml = "libnvidia-ml.so.1";  ///< for dlopen; empty: not tried
  std::string proc = "/proc/driver/nvidia";
  std::string dev = "/dev";
};

/// Whether an NVIDIA driver seems to be here; costs a few microseconds.
bool gpus_likely(const GpuPlaces& places = {});

/// Looks in all places in order; the first that knows of a GPU wins. Never fails: a machine without
/// GPUs has none.
GpuDiscovery discover_gpus(const GpuPlaces& places = {});

/// The GPU that an entry of the variable names by its number or by the beginning of its UUID; null:
/// none.
const Gpu* find_gpu(const GpuDiscovery& discovered, const std::string& entry);

/// The UUID of what one entry of CUDA_VISIBLE_DEVICES names, whole: of a GPU, or the entry of a MIG
/// instance. Empty when the source does not tell.
std::string uuid_of(const GpuDiscovery& discovered, const std::string& entry);

/// The PCI address of the GPU that one entry of CUDA_VISIBLE_DEVICES names (`0`, `GPU-1b2c...`,
/// `MIG-...`). Empty when the source does not tell, and for a MIG instance beside several GPUs.
std::string pci_address_of(const GpuDiscovery& discovered, const std::string& entry);

/// A PCI address with four digits of domain, unless it needs more, in lower case.
std::string sysfs_spelling(std::string_view text);

/// The first vendor, in the order of AMD, Intel, Ascend and Gaudi, that has a device which can be
/// opened here. `word` as in GpuDiscovery; empty: any. `root`: where /sys and /dev are, but in
/// tests the machine's. Never fails.
GpuDiscovery discover_accelerators(std::string_view word = {}, const std::string& root = "");

}  // namespace ddprun::machine
