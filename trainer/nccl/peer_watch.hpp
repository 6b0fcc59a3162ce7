// Which ranks on this host have ended. Of those on other hosts NCCL itself tells.
#pragma once

#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/comm/process_watch.hpp"
#include "trainer/nccl/announcement.hpp"

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

}  // namespace ddprun::trainer::nccl
