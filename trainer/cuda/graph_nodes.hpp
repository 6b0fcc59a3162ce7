// How large CUDA graphs get.
#pragma once

#include <cstddef>

#include "trainer/model/graph.hpp"

namespace ddprun::trainer::cuda {

/// Kernels and library calls in the graphs of one shard: forward, loss and backward. Libraries may
/// start several kernels for a call, and copies or fills are few.
std::size_t graph_nodes(const Graph& graph);

}  // namespace ddprun::trainer::cuda
