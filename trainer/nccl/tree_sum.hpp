// The upper part of the shard tree on a GPU: adds up one slice of all ranks' local sums.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/rounded_up.hpp"
#include "trainer/comm/communicator.hpp"
#include "trainer/comm/make_communicator.hpp"
#include "trainer/comm/sum_plan.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/nccl/group_calls.hpp"

namespace ddprun::trainer::nccl {

/// How a bucket is cut into one slice for each rank.
class Slices {
 public:
  Slices(Range range, int ranks) : range_(range), step_(step_of(range.end - range.begin, ranks)) {}

  [[nodiscard]] Range of(int rank) const {
    const std::size_t begin =
        std::min(range_.end, range_.begin + static_cast<std::size_t>(rank) * step_);
    return {begin, std::min(range_.end, begin + step_)};
  }
  /// Floats of the largest slice of so many floats; slices begin on 64 bytes.
  static std::size_t step_of(std::size_t floats, int ranks) {
    const auto count = static_cast<std::size_t>(ranks);
    return rounded_up((floats + count - 1) / count, 64 / sizeof(float));
  }

 private:
  Range range_;
  std::size_t step_;
};

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
