// Where backward writes the gradients of one shard's parameters.
#pragma once

#include <span>

namespace ddprun::trainer {

struct GradientArena {
  /// In the device's memory, in arena layout.
  std::span<float> floats;
  /// Gradients are added to what is there. Only devices that say so can (Device).
  bool accumulates = false;
};

}  // namespace ddprun::trainer
