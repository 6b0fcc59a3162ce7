// What sums over GPUs take of each GPU's memory, known before anything is allocated.
#pragma once

#include <cstddef>

#include "trainer/comm/make_communicator.hpp"

namespace ddprun::trainer::nccl {

/// What an NcclCommunicator takes of the GPU's memory beside the arenas. NCCL itself takes more.
std::size_t gpu_bytes_of_sums(const CommOptions& options);

}  // namespace ddprun::trainer::nccl
