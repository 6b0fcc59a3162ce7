// Where running statistics are in an arena.
#pragma once

#include <span>
#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/model/parameter.hpp"

namespace ddprun::trainer {

/// Of parameters by rising offset; neighbours are one range, with the padding between them. Pure.
std::vector<Range> statistic_ranges(std::span<const Parameter> parameters);

}  // namespace ddprun::trainer
