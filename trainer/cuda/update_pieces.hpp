// How the optimizer's pass is cut for the blocks of a GPU. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/cuda/kernels/arena_kernels.hpp"
#include "trainer/model/parameter.hpp"

namespace ddprun::trainer::cuda {

/// The parts of the parameters (by rising offset) that lie in arena elements [begin, end), in
/// pieces that a block updates in a few microseconds. `decay`: of those parameters that have one.
std::vector<UpdatePiece> update_pieces(std::span<const Parameter> parameters, double decay,
                                       std::size_t begin, std::size_t end);

}  // namespace ddprun::trainer::cuda
