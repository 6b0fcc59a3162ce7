// How a group over NCCL ends that cannot go on, in words. Pure.
//
// ddprun tells by some of these words that a rank only waited for another one, or lost it
// (agent/evidence/line_signs.cpp). The text about a rank that hangs itself has none of them.
#pragma once

#include <chrono>
#include <string>

#include "trainer/comm/communicator.hpp"
#include "trainer/cuda/watch.hpp"

namespace ddprun::trainer::nccl {

/// What a rank waited for.
struct Awaited {
  int bucket = -1;          ///< of the sum; -1: see is_meeting
  bool is_meeting = false;  ///< of all ranks; false: nothing is awaited

  [[nodiscard]] bool is_nothing() const { return bucket < 0 && !is_meeting; }
  /// "the sum of bucket 3", "the meeting of all ranks"; of nothing "NCCL".
  [[nodiscard]] std::string text() const;
};

CommResult peer_ended(int peer, int pid, const Awaited& awaited);
/// `call` has failed on the GPU `gpu`, its name and uuid; `error` and `last`: NCCL's words.
CommResult nccl_failed(const std::string& call, const Awaited& awaited, const std::string& gpu,
                       const std::string& error, const std::string& last);
/// The rank's own GPU has done its part.
CommResult waited_too_long(int rank, const Awaited& awaited, std::chrono::duration<double> waited);
/// It has not: what was computed before hangs. The text of an error, as nothing of this rank can go
/// on. `awaited`: nothing where the host waited for the GPU alone.
std::string own_work_hangs(const Awaited& awaited, std::chrono::duration<double> waited);
/// For a worker without others: throws DeviceError of own_work_hangs() when the host has waited for
/// so long.
cuda::WatchFunction watch_until(std::chrono::nanoseconds timeout);

}  // namespace ddprun::trainer::nccl
