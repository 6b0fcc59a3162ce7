// A GPU each call of which has a limit.
#pragma once

#include <memory>

#include "trainer/cuda/call_watch.hpp"
#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::cuda {

/// Calls of `gpu` under `calls`, which outlives it. A call that waits, and looks meanwhile (see
/// Gpu::set_watch), has its limit from look to look: how long the wait itself may take is decided
/// by the watch.
std::unique_ptr<Gpu> make_guarded_gpu(std::unique_ptr<Gpu> gpu, CallWatch& calls);

}  // namespace ddprun::trainer::cuda
