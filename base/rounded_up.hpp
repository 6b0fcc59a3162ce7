// Sizes that are multiples of something.
#pragma once

#include <concepts>
#include <type_traits>

namespace ddprun {

/// The smallest multiple of `unit` (above 0) that is at least `value` (0 or more).
template <std::integral T>
constexpr T rounded_up(T value, std::type_identity_t<T> unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace ddprun
