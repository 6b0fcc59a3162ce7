// GPUs and other accelerators that are not NVIDIA's, found in /sys and /dev without their software.
#pragma once

#include <string>
#include <string_view>

#include "machine/devices/devices.hpp"

namespace ddprun::machine {

/// The first vendor, in the order of AMD, Intel, Ascend and Gaudi, that has a device which can be
/// opened here. `word` as in GpuDiscovery; empty: any. `root`: where /sys and /dev are, but in
/// tests the machine's. Never fails.
GpuDiscovery discover_accelerators(std::string_view word = {}, const std::string& root = "");

}  // namespace ddprun::machine
