// PyTorch's default initialisation of convolution and linear layers, without any generator state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/model/model.hpp"

namespace ddprun::trainer {

/// Weight and bias uniform in [-1/sqrt(fan_in), 1/sqrt(fan_in)): what kaiming_uniform(a = sqrt(5))
/// comes to. Element e (in PyTorch's order, so that the arena's layout does not matter) of the
/// parameter NAME is word e mod 4 of Philox(counter = {e / 4 low, e / 4 high, FNV-1a of NAME low,
/// high}, key = seed low, high). Weights come before the bias of the same layer in `parameters`.
void initialize_as_pytorch(const std::vector<Parameter>& parameters, std::span<float> arena,
                           std::uint64_t seed);

}  // namespace ddprun::trainer
