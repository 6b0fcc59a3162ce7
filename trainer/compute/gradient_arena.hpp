// Where backward writes the gradients of one shard's parameters.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>

namespace ddprun::trainer {

struct GradientArena {
  /// In the device's memory, in arena layout.
  std::span<float> floats;
  /// Gradients are added to what is there. Only devices that say so can (Device).
  bool accumulates = false;
};

/// `size`: of the model's arenas; `can_accumulate`: of the device.
inline void check_arena(const GradientArena& arena, std::size_t size, bool can_accumulate) {
  if (arena.floats.size() != size) throw std::logic_error("arena of another model");
  if (arena.accumulates && !can_accumulate)
    throw std::logic_error("this device adds no gradients to others");
}

}  // namespace ddprun::trainer
