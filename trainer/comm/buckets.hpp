// Cuts the gradient arena into buckets: address ranges that are reduced as one. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/comm/communicator.hpp"

namespace ddprun::trainer {

struct BucketSizes {
  std::size_t bytes = 25u << 20;       ///< --bucket-mb
  std::size_t first_bytes = 1u << 20;  ///< small, so that the first sum starts early in backward
  std::size_t last_bytes = 1u << 20;   ///< small, because its sum is exposed at the end of backward
};

/// The ranges, in the order in which backward finishes them. They cover 0 .. arena_floats, are cut
/// on 64 bytes (also inside tensors), and are at most kStartedMax: sizes that would give more are
/// raised.
std::vector<Range> bucket_table(std::size_t arena_floats, BucketSizes sizes);

}  // namespace ddprun::trainer
