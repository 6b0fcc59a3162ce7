// Ends a communicator. Both calls may wait for ranks that have left, and then never return.
#pragma once

#include <string>

#include "trainer/cuda/call_watch.hpp"
#include "trainer/nccl/nccl_api.hpp"

namespace ddprun::trainer::nccl {

/// Where all ranks end theirs.
void destroy_comm(const Functions& call, Comm comm, cuda::CallWatch* calls);
/// `why`: what has happened before, for the line of `calls` where this is too late; it is printed
/// nowhere else then. `calls` may be null: there is no limit.
void abort_comm(const Functions& call, Comm comm, cuda::CallWatch* calls, const std::string& why);

}  // namespace ddprun::trainer::nccl
