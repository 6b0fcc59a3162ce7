// Waits for a call of NCCL that returns before it is done, until a deadline of ours.
#pragma once

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

}  // namespace ddprun::trainer::nccl
