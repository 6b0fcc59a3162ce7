// The most memory that workers have taken, for the final report.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/compute/device.hpp"

namespace ddprun::trainer {

/// Of one worker, in bytes. Trivially copyable: ranks exchange it.
struct PeakMemory {
  /// Of its device: weights, gradients, moments, activations, with gradients that are in memory
  /// shared with other workers.
  std::uint64_t device = 0;
  std::uint64_t process = 0;  ///< resident, of the host; 0: not known
};

/// Of this worker, so far.
PeakMemory peak_memory(const Device& device, const Communicator& communicator);

/// Two or three lines, for terminals of 60 columns: "peak memory of each worker:", "  45 MB for
/// weights, gradients, activations", "  102 MB to 118 MB of the process". `all`: by rank, at least
/// one. `replicas`: of one worker with --parallel=dp, which are counted together. Pure.
std::string peak_memory_text(std::span<const PeakMemory> all, std::size_t replicas = 1);

/// One of the two, by rank.
std::vector<std::uint64_t> peaks_of(std::span<const PeakMemory> all,
                                    std::uint64_t PeakMemory::*which);

}  // namespace ddprun::trainer
