// The upper part of the shard tree on a GPU: adds up one slice of all ranks' local sums.
#pragma once

#include <span>
#include <vector>

#include "trainer/comm/make_communicator.hpp"
#include "trainer/comm/sum_plan.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/nccl/group_calls.hpp"
#include "trainer/nccl/slices.hpp"

namespace ddprun::trainer::nccl {

class TreeSum {
 public:
  /// `arenas`: those of this rank, by slot.
  TreeSum(Device& device, const CommOptions& options, std::span<const float* const> arenas);
  /// What it receives into. Beside that it has tables of some bytes for each shard.
  static std::size_t received_bytes(const CommOptions& options);

  /// Sends `peer` its slice of each local sum of this rank, and receives this rank's of that one's.
  void exchange_parts(GroupCalls& calls, const Slices& slices, int peer) const;

  /// Elements `slice` of all inputs, to the same elements of `arena`.
  void sum(cuda::Gpu& gpu, float* arena, Range slice) const;

 private:
  const int rank_;
  const SumPlan plan_;
  const std::vector<const float*> arenas_;
  /// Where the slice of each local sum of another rank is received, by its slots.
  std::vector<std::vector<float*>> parts_;  // by rank
  DeviceMemory received_;
  DeviceMemory inputs_;
  DeviceMemory additions_;
};

}  // namespace ddprun::trainer::nccl
