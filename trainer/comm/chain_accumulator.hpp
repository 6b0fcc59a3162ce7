// Sums the gradients of a rank's shards one after another in one arena: the operations of the
// device add them.
#pragma once

#include <cstddef>
#include <span>

#include "trainer/comm/shard_sums.hpp"
#include "trainer/comm/shard_tree.hpp"

namespace ddprun::trainer {

/// One shard at a time, in the order of the run. Used by one thread.
class ChainAccumulator final : public ShardSums {
 public:
  /// `arena` receives the sum; it is in the memory of a device that accumulates gradients.
  ChainAccumulator(ShardRun run, std::span<float> arena) : run_(run), arena_(arena) {}

  void reset() override;
  GradientArena begin(int shard) override;
  std::size_t final_up_to(int shard, std::size_t end) override;

 private:
  const ShardRun run_;
  const std::span<float> arena_;
  int begun_ = 0;          // shards
  std::size_t final_ = 0;  // floats of the one under way
};

}  // namespace ddprun::trainer
