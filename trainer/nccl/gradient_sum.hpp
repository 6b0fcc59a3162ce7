// Gradients summed over all ranks by NCCL: the arenas, and which calls add up a range of them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "trainer/comm/make_communicator.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/nccl/group_calls.hpp"
#include "trainer/nccl/tree_sum.hpp"

namespace ddprun::trainer::nccl {

class GradientSum {
 public:
  using Calls = std::function<void(GroupCalls&)>;
  /// Makes these calls in one group of NCCL, on the communication stream. False: that failed, and
  /// nothing further is to be asked for.
  using InGroup = std::function<bool(const Calls&)>;

  /// Allocates the arenas, and all else that NCCL is given. Device and GPU outlive it;
  /// `options.device` is that device.
  GradientSum(cuda::Gpu& gpu, const CommOptions& options);

  [[nodiscard]] std::span<float> arena(int slot) const {
    return arenas_.at(static_cast<std::size_t>(slot)).as<float>();
  }
  /// Puts the sum of elements `range` over all ranks on the communication stream; its result comes
  /// to be in arena 0.
  void start(Range range, const InGroup& in_group);

 private:
  void sum_as_floats(Range range, const InGroup& in_group);
  void sum_in_tree(Range range, const InGroup& in_group);
  [[nodiscard]] Calls with_each_peer(std::function<void(GroupCalls&, int peer)> with_peer) const;

  cuda::Gpu& gpu_;
  const int rank_;
  const int world_size_;
  std::vector<DeviceMemory> arenas_;
  std::optional<TreeSum> tree_;  // of the order with that name
};

}  // namespace ddprun::trainer::nccl
