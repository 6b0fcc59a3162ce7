// How the ranks of a job become one NCCL communicator: through the store they compare what must be
// equal, rank 0 hands out the unique id, and all wait for NCCL until a deadline of ours. And how it
// ends.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/comm/make_communicator.hpp"
#include "trainer/comm/process_watch.hpp"
#include "trainer/cuda/call_watch.hpp"
#include "trainer/nccl/announcement.hpp"
#include "trainer/nccl/nccl_api.hpp"

namespace ddprun::trainer::nccl {

class PeerWatch {
 public:
  PeerWatch(const std::vector<Announcement>& ranks, int own);

  /// One that has ended; -1: none. Looks no more often than every few milliseconds.
  int ended(Clock::time_point now);
  [[nodiscard]] pid_t pid(int rank) const;

 private:
  struct Peer {
    int rank;
    ProcessWatch process;
  };
  std::vector<Peer> peers_;
  Clock::time_point next_look_{};
  int ended_ = -1;
};

struct GroupOptions {
  CommOptions comm;
  std::string gpu;   ///< of this rank, its uuid
  std::string card;  ///< GpuFacts::card
  bool shares_gpus = false;
  cuda::CallWatch* calls = nullptr;  ///< NcclSettings::calls
};

struct Group {
  Comm comm = nullptr;
  std::vector<Announcement> ranks;
};

struct GroupSetup {
  std::optional<Group> group;
  CommResult result;
  bool refused = false;
};

/// Errors as make_communicator's. The GPU must be this thread's. After a deadline within NCCL the
/// process has to leave without waiting for NCCL's threads (_Exit).
GroupSetup join_group(const GroupOptions& options, const Library& library, Exchange& exchange,
                      Clock::time_point deadline);

// Both calls may wait for ranks that have left, and then never return.

/// Where all ranks end theirs.
void destroy_comm(const Functions& call, Comm comm, cuda::CallWatch* calls);
/// `why`: what has happened before, for the line of `calls` where this is too late; it is printed
/// nowhere else then. `calls` may be null: there is no limit.
void abort_comm(const Functions& call, Comm comm, cuda::CallWatch* calls, const std::string& why);

}  // namespace ddprun::trainer::nccl
