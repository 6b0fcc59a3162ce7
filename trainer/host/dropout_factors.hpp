// The elements of dropout masks, many at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/dropout_ops.hpp"

namespace ddprun::trainer {

/// fill_factors() writes in pieces of so many.
inline constexpr std::size_t kFactorPiece = 64;

/// mask.factor() of the elements from `first`, a multiple of 4, on. Writes `count` rounded up to
/// whole pieces.
void fill_factors(const DropoutMask& mask, std::uint64_t first, std::size_t count, float* factors);

}  // namespace ddprun::trainer
