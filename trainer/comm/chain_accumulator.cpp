#include "trainer/comm/chain_accumulator.hpp"

#include "base/assert.hpp"

namespace ddprun::trainer {

void ChainAccumulator::reset() {
  DDPRUN_ASSERT(begun_ == 0 || final_ == arena_.size(), "no shard is under way");
  begun_ = 0;
  final_ = 0;
}

GradientArena ChainAccumulator::begin(int shard) {
  DDPRUN_ASSERT(begun_ < run_.count && shard == run_.first + begun_,
                "the shards of a chain begin in their order, once for each step");
  DDPRUN_ASSERT(begun_ == 0 || final_ == arena_.size(),
                "a shard is added when the one before it is complete");
  ++begun_;
  final_ = 0;
  return {.floats = arena_, .accumulates = begun_ > 1};
}

std::size_t ChainAccumulator::final_up_to(int shard, std::size_t end) {
  DDPRUN_ASSERT(shard == run_.first + begun_ - 1, "the shard that has begun");
  DDPRUN_ASSERT(final_ <= end && end <= arena_.size(),
                "the final range only grows, up to the arena's size");
  final_ = end;
  return begun_ == run_.count ? final_ : 0;
}

}  // namespace ddprun::trainer
