// Ranks with a GPU each exchange gradients by NCCL, in the order of the shard tree: the same bits
// for any number of ranks.
//
// Each rank sums one slice of a bucket. It gets that slice of every local sum of the others, adds
// them up in the order of the tree, and sends the result to all.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "trainer/comm/make_communicator.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/cuda/call_watch.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/nccl/nccl_api.hpp"

namespace ddprun::trainer::nccl {

struct NcclSettings {
  CommOptions comm;  ///< its device is that of the GPU
  cuda::Gpu& gpu;
  std::shared_ptr<const Library> library;
  /// How long a sum may take from when it is the oldest that is not done.
  std::chrono::nanoseconds timeout{std::chrono::minutes(1)};
  bool shares_gpus = false;  ///< several ranks may have one GPU: for tests
  /// Ends the process where the end of the communicator takes too long; null: nothing does.
  cuda::CallWatch* calls = nullptr;
};

/// What an NcclCommunicator takes of the GPU's memory beside the arenas. NCCL itself takes more.
std::size_t gpu_bytes_of_sums(const CommOptions& options);

/// As make_communicator(), for a world of at least two. The communicator works on the GPU's
/// communication stream; its sums come before what the compute stream is given after finish(). The
/// host waits in broadcast(), all_gather() and barrier() alone: if one of them is done, then so is
/// every sum finished before, on every rank. While the host waits for the GPU elsewhere, a lost
/// peer and the timeout end the sums under way, and the next call returns that. If the timeout
/// passes while this rank's own GPU is not done, that wait, or the call, throws DeviceError.
CommSetup make_nccl_communicator(const NcclSettings& settings, Exchange& exchange,
                                 Clock::time_point deadline);

}  // namespace ddprun::trainer::nccl
