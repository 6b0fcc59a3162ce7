// Sizes that are multiples of something.
#pragma once

#include <cstddef>

namespace ddprun {

/// The smallest multiple of `unit` that is at least `value`.
constexpr std::size_t rounded_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace ddprun
