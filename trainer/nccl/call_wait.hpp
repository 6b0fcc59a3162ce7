// Waits for a call of NCCL that returns before it is done, until a deadline of ours, and for what
// may be there in a moment.
#pragma once

#include <thread>

#include "trainer/comm/communicator.hpp"
#include "trainer/nccl/nccl_api.hpp"
#include "trainer/nccl/peer_watch.hpp"

namespace ddprun::trainer::nccl {

struct CallEnd {
  /// in_progress: it has not ended by the deadline, or before `peer` did.
  Status status = Status::success;
  int peer = -1;  ///< a rank of this host that has ended meanwhile
};

/// `status`: what the call returned. The communicator does not block, and no other call of it is in
/// progress.
CallEnd wait_for_call(const Functions& call, Comm comm, Status status, PeerWatch& peers,
                      Clock::time_point deadline);

/// Whether a condition holds now or within this time.
template <class Condition>
bool comes_within(Clock::duration time, Condition condition) {
  const auto until = Clock::now() + time;
  while (!condition()) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace ddprun::trainer::nccl
