// The samples of one pass.
#pragma once

#include <cstdint>
#include <span>

namespace ddprun::trainer {

/// In host memory, not owned. Of labels and masks the one that the graph's target() names.
struct Batch {
  std::span<const float> images;              ///< samples x height x width x channels
  std::span<const std::int32_t> labels = {};  ///< the class of each sample
  std::span<const float> masks = {};          ///< samples x height x width, 0 to 1
};

}  // namespace ddprun::trainer
