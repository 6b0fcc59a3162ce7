// The upper part of the shard tree on a GPU: adds up one slice of all ranks' local sums.
#pragma once

#include <span>
#include <vector>

#include "trainer/comm/make_communicator.hpp"
#include "trainer/comm/sum_plan.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::nccl {

class TreeSum {
 public:
  /// `arenas`: those of this rank, by slot.
  TreeSum(Device& device, const CommOptions& options, std::span<const float* const> arenas);
  /// What it receives into. Beside that it has tables of some bytes for each shard.
  static std::size_t received_bytes(const CommOptions& options);

  /// Where the slice of each local sum of another rank is received, by its slots.
  [[nodiscard]] std::span<float* const> parts_of(int rank) const {
    return parts_[static_cast<std::size_t>(rank)];
  }

  /// Elements `slice` of all inputs, to the same elements of `arena`.
  void sum(cuda::Gpu& gpu, float* arena, Range slice) const;

 private:
  const int rank_;
  const SumPlan plan_;
  std::vector<std::vector<float*>> parts_;  // by rank
  DeviceMemory received_;
  DeviceMemory inputs_;
  DeviceMemory additions_;
};

}  // namespace ddprun::trainer::nccl
