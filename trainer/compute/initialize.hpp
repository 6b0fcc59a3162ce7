// First values of parameters, without any generator state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/model/parameter.hpp"

namespace ddprun::trainer {

/// Each parameter's InitialValues. Element e (in PyTorch's order, so that the arena's layout does
/// not matter) of the parameter NAME comes from word e mod 4 of Philox(counter = {e / 4 low, e / 4
/// high, FNV-1a of NAME low, high}, key = seed low, high). Normal values: with the words 2 (e mod
/// 2) and 2 (e mod 2) + 1 of block e / 2 as a and b, by Box and Muller in double: sqrt(-2 ln((a +
/// 1) / 2^32)) cos(2 pi b / 2^32).
void initialize(const std::vector<Parameter>& parameters, std::span<float> arena,
                std::uint64_t seed);

}  // namespace ddprun::trainer
