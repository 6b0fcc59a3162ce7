// How one rank adds up the gradients of the shards that it computes, range by range as they become
// final.
#pragma once

#include <cstddef>

#include "trainer/compute/gradient_arena.hpp"

namespace ddprun::trainer {

class ShardSums {
 public:
  virtual ~ShardSums() = default;

  /// Forgets all sums: the next step starts.
  virtual void reset() = 0;

  /// Where the gradients of `shard` (one of the run, once for each step) are to be written. Old
  /// values are in there, and are garbage unless the arena accumulates.
  virtual GradientArena begin(int shard) = 0;

  /// The first `end` floats of this shard are final and will not be written any more. Adds up what
  /// can be added. Returns how many floats of all sums of this rank are final.
  virtual std::size_t final_up_to(int shard, std::size_t end) = 0;
};

}  // namespace ddprun::trainer
