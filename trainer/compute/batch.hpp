// The samples of one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::trainer {

/// In host memory, not owned.
struct Batch {
  std::span<const float> images;         ///< samples x height x width x channels
  std::span<const std::int32_t> labels;  ///< the class of each sample
  [[nodiscard]] std::size_t count() const { return labels.size(); }
};

}  // namespace ddprun::trainer
