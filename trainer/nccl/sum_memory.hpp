// What sums over GPUs take of each GPU's memory, known before anything is allocated.
#pragma once

#include <cstddef>

#include "trainer/comm/make_communicator.hpp"

namespace ddprun::trainer::nccl {

/// Of an NcclCommunicator, beside the arenas. NCCL itself takes more.
std::size_t gpu_bytes_of_sums(const CommOptions& options);

}  // namespace ddprun::trainer::nccl
