#include "trainer/compute/gradient_norm.hpp"

#include <algorithm>

namespace ddprun::trainer {

std::vector<NormBlock> norm_blocks(const std::vector<Parameter>& parameters) {
  constexpr std::size_t kSize = kNormLanes * kNormRows;
  std::vector<NormBlock> blocks;
  for (const Parameter& parameter : parameters) {
    if (parameter.role != ParameterRole::weight) continue;
    for (std::size_t at = 0; at < parameter.count; at += kSize)
      blocks.push_back(
          {.begin = parameter.offset + at,
           .count = static_cast<std::uint32_t>(std::min(kSize, parameter.count - at))});
  }
  return blocks;
}

}  // namespace ddprun::trainer
